// Routes of annotation queues and their reviewers.
import { slice } from '../../kernel/http/routes.ts'
import * as queues from './queues.ts'
import * as reviewers from './reviewers.ts'
import * as s from './schema.ts'

const PLATFORM = '/v1/platform/annotation-queues'

export const queueRoutes = slice('Annotation queues', 'Runs and threads that people review, one by one.')
  .get('/annotation-queues', {
    id: 'listQueues',
    summary: 'List the annotation queues of this workspace',
    description:
      'By default the newest first. `assigned_to_me` lists those that the caller reviews. A page that is shorter ' +
      'than `limit` is the last one.',
    toleratesUnknown: true,
    query: s.QueueQuery,
    repeatable: ['ids', 'tag_value_id'],
    reply: s.QueueList,
    verb: queues.listQueues,
  })
  .post('/annotation-queues', {
    id: 'createQueue',
    summary: 'Create an annotation queue',
    description:
      'With `session_ids`, the root runs of these projects are added at once, up to 10,000 items. `rubric_items` are ' +
      'the feedback keys that reviewers give.',
    toleratesUnknown: true,
    body: s.NewQueue,
    reply: s.Queue,
    errors: [
      'annotation_queue_exists',
      'dataset_not_found',
      'tag_value_not_found',
      'project_not_found',
      'queue_full',
      'workspace_not_found',
      'quota_full',
    ],
    location: queue => `/annotation-queues/${queue.id}`,
    verb: queues.createQueue,
  })
  .delete('/annotation-queues', {
    id: 'deleteQueues',
    summary: 'Delete annotation queues',
    description: 'Their runs stay. If one of the queues does not exist, nothing is deleted.',
    toleratesUnknown: true,
    query: s.QueueIds,
    repeatable: ['queue_ids'],
    reply: s.DeletedList,
    errors: ['queue_not_found'],
    verb: queues.deleteQueues,
  })
  .get('/annotation-queues/{queue_id}', {
    id: 'readQueue',
    summary: 'Read an annotation queue',
    description: 'It has its rubric and reviewers. `total_runs` counts reviewed items, too.',
    toleratesUnknown: true,
    params: s.QueueRef,
    reply: s.Queue,
    errors: ['queue_not_found'],
    versioned: true,
    verb: queues.readQueue,
  })
  .patch('/annotation-queues/{queue_id}', {
    id: 'changeQueue',
    summary: 'Change an annotation queue',
    description: 'Members that are absent stay as they are, and null removes a value. Reviews that were given stay.',
    toleratesUnknown: true,
    params: s.QueueRef,
    body: s.QueuePatch,
    reply: s.Queue,
    errors: ['queue_not_found', 'dataset_not_found', 'tag_value_not_found'],
    versioned: true,
    verb: queues.changeQueue,
  })
  .delete('/annotation-queues/{queue_id}', {
    id: 'deleteQueue',
    summary: 'Delete an annotation queue',
    description: 'Its runs stay.',
    toleratesUnknown: true,
    params: s.QueueRef,
    reply: s.Deleted,
    errors: ['queue_not_found'],
    versioned: true,
    verb: queues.deleteQueue,
  })
  .get('/annotation-queues/{run_id}/queues', {
    id: 'listQueuesOfRun',
    summary: 'List the annotation queues that have a run',
    description: 'All of them in one answer, newest first, also those in which the run has been reviewed.',
    toleratesUnknown: true,
    params: s.RunRef,
    reply: s.QueueList,
    errors: ['run_not_found'],
    verb: queues.listQueuesOfRun,
  })
  .post(`${PLATFORM}/{queue_id}/reviewers`, {
    id: 'addQueueReviewer',
    summary: 'Assign a reviewer to an annotation queue',
    description:
      'With `reviewer_access_mode` `assigned`, only assigned reviewers review. A queue can have 100. To assign one ' +
      'again changes nothing.',
    toleratesUnknown: true,
    params: s.QueueRef,
    body: s.NewReviewer,
    status: 201,
    reply: s.NewReviewer,
    errors: ['queue_not_found', 'identity_not_found', 'reviewers_full'],
    verb: reviewers.addReviewer,
  })
  .delete(`${PLATFORM}/{queue_id}/reviewers/{identity_id}`, {
    id: 'removeQueueReviewer',
    summary: 'Take a reviewer from an annotation queue',
    description: 'Reviews that were given stay. To remove one who is not assigned succeeds and changes nothing.',
    toleratesUnknown: true,
    params: s.ReviewerRef,
    errors: ['queue_not_found'],
    verb: reviewers.removeReviewer,
  })
