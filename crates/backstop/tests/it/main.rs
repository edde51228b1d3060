//! Tests of the whole tree and of the command line.

mod run;
mod tidy;
