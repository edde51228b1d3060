//! Tests of the whole tree and of the command line.

#![cfg(test)]
mod admin;
mod attacks;
mod canaries;
mod classify;
mod clients;
mod commands;
mod demo;
mod matrix;
mod moving;
mod newcomer;
mod run;
mod serve;
mod served;
mod tables;
mod tidy;
