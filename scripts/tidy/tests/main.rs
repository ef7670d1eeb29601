//! The rules of this repository, one module each. One binary: it is compiled and linked once.

mod abi;
mod circles;
mod dead;
mod demo;
mod docs;
mod face;
mod figures;
mod install;
mod layers;
mod licences;
mod lines;
mod locks;
mod named;
mod product;
mod prose;
mod results;
mod rules;
mod weight;
