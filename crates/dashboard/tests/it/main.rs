//! The admin API as a program or a browser meets it, over a gateway whose upstream is a script.

mod agents;
mod connection;
mod contract;
mod costs;
mod door;
mod keys;
mod moving;
mod outcome;
mod pages;
mod rest;
mod world;
