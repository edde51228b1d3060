//! Tests of the whole tree and of the command line.

#![cfg(test)]
mod admin;
mod classify;
mod clients;
mod commands;
mod demo;
mod moving;
mod newcomer;
mod run;
mod serve;
mod served;
mod tidy;
