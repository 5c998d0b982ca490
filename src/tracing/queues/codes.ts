// Error codes of queues.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const queuesCodes = {
  queue_full: {
    status: 400,
    title: 'Queue full',
    problem: 'An annotation queue can have at most 10,000 items.',
    remedy: 'Delete reviewed ones first, or use another queue.',
  },
  reviewers_full: {
    status: 400,
    title: 'Too many reviewers',
    problem: 'An annotation queue can have at most 100 assigned reviewers.',
    remedy: 'Remove one first.',
  },
  not_a_reviewer: {
    status: 403,
    title: 'Not a reviewer',
    problem: 'Only assigned reviewers review the items of this annotation queue.',
    remedy: 'Ask for an assignment, or set `reviewer_access_mode` to `any`.',
  },
  queue_not_found: {
    status: 404,
    title: 'Annotation queue not found',
    problem: 'This annotation queue was not found in this workspace.',
    remedy: 'GET /annotation-queues lists the queues.',
  },
  queue_item_not_found: {
    status: 404,
    title: 'Item not found',
    problem: 'This item was not found in the annotation queue.',
    remedy: 'GET /annotation-queues/{queue_id}/runs lists the runs of a queue.',
  },
  annotation_queue_exists: {
    status: 409,
    title: 'Annotation queue exists',
    problem: 'An annotation queue with this `id` already exists.',
    remedy: 'Use it, or choose another id.',
  },
  queue_item_taken: {
    status: 409,
    title: 'Item taken',
    problem: 'Other reviewers have reserved or completed this item.',
    remedy: 'Take the next one.',
  },
} as const satisfies ErrorCodes
