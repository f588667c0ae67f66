//! What the server needs of the operating system: files that are read without blocking a worker, watched files, the state folder, users, cores, and its side of the admin socket.

pub mod admin;
mod cores;
pub mod file_access;
pub mod line_file;
pub mod openat2;
pub mod sandboxed;
pub mod state_dir;
pub mod user;
pub mod watched_files;

pub use self::cores::cores;
