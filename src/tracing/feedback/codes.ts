// Error codes of feedback.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const feedbackCodes = {
  feedback_out_of_range: {
    status: 400,
    title: 'Score out of range',
    problem: 'The configuration of the feedback key does not allow this score.',
    remedy: 'GET /feedback-configs?key= shows what it allows.',
  },
  feedback_config_differs: {
    status: 400,
    title: 'Feedback key configured differently',
    problem: 'This feedback key already has another configuration.',
    remedy: 'Leave `feedback_config` out, or change it with PATCH /feedback-configs.',
  },
  feedback_not_found: {
    status: 404,
    title: 'Feedback not found',
    problem: 'This feedback was not found.',
    remedy: 'GET /feedback lists the feedback.',
  },
  feedback_config_not_found: {
    status: 404,
    title: 'Feedback configuration not found',
    problem: 'The configuration of this feedback key was not found.',
    remedy: 'GET /feedback-configs lists the configurations.',
  },
  feedback_link_not_found: {
    status: 404,
    title: 'Feedback link not found',
    problem: 'This feedback link was not found. It may have expired.',
    remedy: 'Ask for a new one.',
  },
  feedback_exists: {
    status: 409,
    title: 'Feedback exists',
    problem: 'Other feedback already has this `id`: of another run, key or caller.',
    remedy: 'Choose another id, or leave it out.',
  },
  feedback_links_full: {
    status: 409,
    title: 'Too many feedback links',
    problem: 'A run can have at most 100 feedback links that have not expired.',
    remedy: 'Use one of them: GET /feedback/tokens?run_id= lists them.',
  },
} as const satisfies ErrorCodes
