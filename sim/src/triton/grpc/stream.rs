//! `ModelStreamInfer`: many requests on one stream, their responses interleaved.
//!
//! In: requests as they come. Out: each response when it is due, in the order of their times. Ends once the client has
//! sent its last request and all are answered, or with the first error where the client asked for that.

use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::super::infer::{Infer, failed, response, streamed};
use super::super::{Fault, Model, Replies, Reply};
use super::{Call, End, Messages, finish};
use crate::seen::Running;

/// A request being answered.
struct Job {
    model: Model,
    infer: Infer,
    replies: Replies,
    next: Option<Reply>,
    due: Instant,
    _running: Running,
}

impl Job {
    fn step(&mut self) {
        self.next = self.replies.next();
        if let Some(reply) = &self.next {
            self.due += reply.wait;
        }
    }
}

/// Whether the stream goes on after an error.
enum Goes {
    On,
    Ended,
}

impl Call<'_> {
    pub(super) async fn stream(&mut self) -> Result<(), End> {
        let mut messages = Messages::default();
        let mut jobs: Vec<Job> = Vec::new();
        let mut over = false;
        while !over || !jobs.is_empty() {
            // Of two that are due together, the one that was asked first.
            let due = jobs.iter().enumerate().min_by_key(|(_, job)| job.due);
            let due = due.map(|(index, job)| (index, job.due));
            let piece = tokio::select! {
                biased;
                piece = self.lane.news(over) => Some(piece?),
                () = at(due), if due.is_some() => None,
            };
            let goes = match (piece, due) {
                (Some(None), _) => {
                    over = true;
                    Goes::On
                }
                (Some(Some(piece)), _) => {
                    messages.feed(&piece);
                    self.lane.room(piece.len());
                    self.requests(&mut messages, &mut jobs).await?
                }
                (None, Some((index, _))) => self.speak(&mut jobs, index).await?,
                (None, None) => Goes::On,
            };
            if let Goes::Ended = goes {
                return Ok(());
            }
        }
        Ok(finish(self.lane)?)
    }

    /// Begins what the messages ask for.
    async fn requests(
        &mut self,
        messages: &mut Messages,
        jobs: &mut Vec<Job>,
    ) -> Result<Goes, End> {
        loop {
            let message = match messages.next() {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(Goes::On),
                // There is no telling where the next message would begin.
                Err(fault) => {
                    self.fail(&fault)?;
                    return Ok(Goes::Ended);
                }
            };
            let refused = match Infer::read(&message) {
                Err(fault) => self.error(&fault, None, "").await?,
                Ok(infer) => match self.job(&infer) {
                    Ok(job) => {
                        jobs.push(job);
                        // One without any response is over as soon as it is asked.
                        self.ended(jobs).await?;
                        Goes::On
                    }
                    Err(fault) => self.error(&fault, None, &infer.id).await?,
                },
            };
            if let Goes::Ended = refused {
                return Ok(Goes::Ended);
            }
        }
    }

    fn job(&mut self, infer: &Infer) -> Result<Job, Fault> {
        // The first has the number of its stream; each further one draws its own waits.
        if std::mem::replace(&mut self.asked, true) {
            self.turn = self.shared.turn();
        }
        let model = Model::find(&infer.model, &infer.version)?;
        model.check(&infer.id, &infer.inputs)?;
        let mut job = Job {
            model,
            infer: infer.clone(),
            replies: Replies::new(model, &infer.inputs, &self.settings, &self.order, self.turn),
            next: None,
            due: Instant::now(),
            _running: self.shared.ledger.running(),
        };
        job.step();
        Ok(job)
    }

    /// Sends the response of a job that is due.
    async fn speak(&mut self, jobs: &mut Vec<Job>, index: usize) -> Result<Goes, End> {
        let Some(job) = jobs.get_mut(index) else {
            return Ok(Goes::On);
        };
        let said = job.next.take().map(|reply| reply.said);
        job.step();
        let (model, id) = (job.model, job.infer.id.clone());
        match said {
            Some(Ok(outputs)) => {
                let last = !model.decoupled();
                let response = response(model, &id, &outputs, Some(last));
                self.message(&streamed(&response)).await?;
            }
            Some(Err(fault)) => {
                if let Goes::Ended = self.error(&fault, Some(model), &id).await? {
                    return Ok(Goes::Ended);
                }
            }
            None => {}
        }
        self.ended(jobs).await?;
        Ok(Goes::On)
    }

    /// Takes leave of jobs without another response, with an empty one where that was asked for.
    async fn ended(&mut self, jobs: &mut Vec<Job>) -> Result<(), End> {
        for job in jobs
            .extract_if(.., |job| job.next.is_none())
            .collect::<Vec<_>>()
        {
            if job.infer.empty_final && job.model.decoupled() {
                let response = response(job.model, &job.infer.id, &[], Some(true));
                self.message(&streamed(&response)).await?;
            }
        }
        Ok(())
    }

    /// Tells of an error: in a message, or by ending the stream with a status.
    async fn error(&mut self, fault: &Fault, model: Option<Model>, id: &str) -> Result<Goes, End> {
        if self.head.header("triton_grpc_error") == Some("true") {
            self.fail(fault)?;
            return Ok(Goes::Ended);
        }
        self.message(&failed(fault, model, id)).await?;
        Ok(Goes::On)
    }
}

/// Waits until a job is due.
async fn at(due: Option<(usize, Instant)>) {
    match due {
        Some((_, due)) if due > Instant::now() => sleep_until(due).await,
        // The timer rounds up to whole milliseconds, even for what is due already.
        Some(_) | None => yield_now().await,
    }
}
