//! What an experiment has shown: its findings in words and numbers, made from the records that it has left.

mod chart;
#[cfg(test)]
pub(crate) mod made;
mod read;
