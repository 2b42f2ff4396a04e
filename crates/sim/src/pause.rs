//! A process that is stopped and goes on: nothing of it runs meanwhile, and time passes all the same.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Whether a process is stopped. Clones are handles to the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pause(Rc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    stopped: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

impl Pause {
    pub(crate) fn stop(&self) {
        self.0.stopped.set(true);
    }

    pub(crate) fn go_on(&self) {
        self.0.stopped.set(false);
        let wakers = std::mem::take(&mut *self.0.wakers.borrow_mut());
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.0.stopped.get()
    }

    /// A future of the process.
    pub(crate) fn part<F: Future>(&self, future: F) -> Part<F> {
        Part { pause: self.clone(), future: Box::pin(future) }
    }
}

/// A future that is polled only while its process runs.
pub(crate) struct Part<F> {
    pause: Pause,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Part<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.pause.is_stopped() {
            self.pause.0.wakers.borrow_mut().push(context.waker().clone());
            return Poll::Pending;
        }
        self.future.as_mut().poll(context)
    }
}
