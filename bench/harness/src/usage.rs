//! Errors of usage, told apart from failures at run time.

/// An unknown name, a value that is not accepted, a file that cannot be what it was named for: the
/// command has run nothing and ends with status 2, as for an option that it does not know. The text
/// names what was wrong and what is accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

impl Usage {
    /// Returns whether an error is one of usage, also where context was added to it.
    #[must_use]
    pub fn is_cause_of(error: &anyhow::Error) -> bool {
        error.chain().any(|cause| cause.is::<Self>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn is_known_whatever_it_is_put_into() {
        let error = anyhow::Error::from(Usage("no such name".to_owned()));
        assert!(Usage::is_cause_of(&error));
        let error = Err::<(), _>(error).context("--only").unwrap_err();
        assert!(Usage::is_cause_of(&error));
        assert!(!Usage::is_cause_of(&anyhow::anyhow!("no such name")));
    }
}
