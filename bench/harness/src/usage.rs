//! Errors of usage, distinguished from failures at run time.

/// A wrong command line: nothing has run, and the exit status is 2. The text names the mistake and
/// what is accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

impl Usage {
    /// Returns whether an error is one of usage, with or without added context.
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
