//! A question on the terminal whose answer is not shown.

use std::io;

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use tokio::sync::oneshot;

use super::{
    failure::{Failure, Result},
    interrupts::Interrupts,
    print::{ask, note},
};

/// Standard input's terminal without echo; shown letters come back when this goes.
struct Unseen(Termios);

impl Unseen {
    fn begin() -> nix::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_flags.remove(LocalFlags::ECHO);
        // The end of the line is shown, so that what is printed next starts on its own.
        quiet.local_flags.insert(LocalFlags::ECHONL);
        tcsetattr(io::stdin(), SetArg::TCSANOW, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        // Where it fails the terminal has gone.
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.0);
    }
}

/// Asks for a line that is not shown while it is typed; nothing when Ctrl-C comes instead.
///
/// The echo ends before the question is printed: whoever answers it at once (a paste, a script) isn't shown either.
///
/// # Errors
/// Where standard input is no terminal or cannot be read.
pub async fn ask_hidden(question: &'static str) -> Result<Option<String>> {
    let mut interrupts = Interrupts::listen()?;
    let _unseen = Unseen::begin()
        .map_err(|error| Failure::new(format!("The terminal cannot be read ({error}).")))?;
    let (answered, answer) = oneshot::channel();
    // A thread of its own: nobody waits for one that still reads when Ctrl-C ends the program.
    std::thread::spawn(move || answered.send(ask(question)));
    tokio::select! {
        answer = answer => answer
            .unwrap_or_else(|_| Err(Failure::new("Standard input cannot be read.")))
            .map(Some),
        () = interrupts.next() => {
            note("");
            Ok(None)
        }
    }
}
