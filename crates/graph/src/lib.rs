//! The engine that moves batches through a graph of elements.
