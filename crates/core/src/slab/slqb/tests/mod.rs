//! Tests of the parts that callers do not see.
