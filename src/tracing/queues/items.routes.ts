// Routes of the runs and threads in annotation queues, and of their reviews. Published clients use both families.
import { slice } from '../../kernel/http/routes.ts'
import * as s from './items.schema.ts'
import * as items from './items.ts'
import * as newItems from './new-items.ts'
import * as reviews from './reviews.ts'
import { QueueRef } from './schema.ts'

const QUEUE = '/annotation-queues/{queue_id}'
const PLATFORM = '/v1/platform/annotation-queues'
const ITEMS = `${PLATFORM}/{queue_id}/items` as const
const ADDING = 'What the queue has already stays as it is. If one of them does not exist, none is added.'

export const queueItemRoutes = slice(
  'Annotation queue items',
  'Runs and threads in annotation queues, and their reviews.',
)
  .post(`${QUEUE}/runs`, {
    id: 'addRunsToQueue',
    summary: 'Add runs to an annotation queue',
    description: ADDING,
    toleratesUnknown: true,
    idempotent: true,
    params: QueueRef,
    query: s.Retention,
    body: s.AddedRuns,
    reply: s.QueueRuns,
    errors: ['queue_not_found', 'run_not_found', 'queue_full'],
    verb: newItems.addRuns,
  })
  .post(`${QUEUE}/runs/by-key`, {
    id: 'addRunsToQueueByKey',
    summary: 'Add runs of known projects to an annotation queue',
    description: ADDING,
    toleratesUnknown: true,
    idempotent: true,
    params: QueueRef,
    query: s.Retention,
    body: s.KeyedRuns,
    reply: s.QueueRuns,
    errors: ['queue_not_found', 'run_not_found', 'queue_full'],
    verb: newItems.addRuns,
  })
  .post('/annotation-queues/populate', {
    id: 'populateQueue',
    summary: 'Add the root runs of projects to an annotation queue',
    description: 'Answers how many runs of these projects the queue has now.',
    toleratesUnknown: true,
    idempotent: true,
    body: s.Populate,
    reply: s.Size,
    errors: ['queue_not_found', 'project_not_found', 'queue_full'],
    verb: newItems.populateQueue,
  })
  .get(`${QUEUE}/runs`, {
    id: 'listQueueRuns',
    summary: 'List the runs of an annotation queue',
    description:
      'In the order in which the caller reviews them. Each is the whole run, with who reserved and who completed it.',
    toleratesUnknown: true,
    params: QueueRef,
    query: s.RunListQuery,
    reply: s.ReviewedRuns,
    errors: ['queue_not_found'],
    verb: items.listQueueRuns,
  })
  .get(`${QUEUE}/run/{index}`, {
    id: 'readQueueRun',
    summary: 'Read a run that needs the review of the caller',
    description:
      '`index` counts from 0 among the runs that need the caller’s review, so 0 is the next one. 404 ' +
      '`queue_item_not_found` means that nothing is left.',
    toleratesUnknown: true,
    params: s.RunIndex,
    query: s.RunIndexQuery,
    reply: s.ReviewedRun,
    errors: ['queue_not_found', 'queue_item_not_found'],
    verb: items.readQueueRun,
  })
  .patch(`${QUEUE}/runs/{queue_run_id}`, {
    id: 'changeQueueRun',
    summary: 'Change the times of a run in an annotation queue',
    description: '`added_at` is its place in the order of the queue. Null stays as it is.',
    toleratesUnknown: true,
    idempotent: true,
    params: s.QueueRunRef,
    body: s.ItemPatch,
    reply: s.Item,
    errors: ['queue_item_not_found'],
    verb: items.changeQueueRun,
  })
  .delete(`${QUEUE}/runs/{queue_run_id}`, {
    id: 'deleteQueueRun',
    summary: 'Take a run from an annotation queue',
    description: 'Its reviews in this queue are deleted. The run and its feedback stay.',
    toleratesUnknown: true,
    idempotent: true,
    params: s.QueueRunRef,
    reply: s.DeletedItem,
    errors: ['queue_item_not_found'],
    verb: items.deleteQueueRun,
  })
  .post(`${QUEUE}/runs/delete`, {
    id: 'deleteQueueRuns',
    summary: 'Take runs from an annotation queue',
    description:
      'Name runs or items in `run_ids`, or send `delete_all`, from which `exclude_run_ids` are spared. Runs and ' +
      'feedback stay.',
    toleratesUnknown: true,
    idempotent: true,
    params: QueueRef,
    body: s.DeletedRuns,
    reply: s.DeletedItems,
    errors: ['queue_not_found'],
    verb: items.deleteQueueRuns,
  })
  .get(`${QUEUE}/runs/resolve/{queue_run_id}`, {
    id: 'placeQueueRun',
    summary: 'Find the place of a run in an annotation queue',
    description: 'In which section it is for the caller, and at which position in it, from 0.',
    toleratesUnknown: true,
    params: s.QueueRunRef,
    reply: s.RunPlace,
    errors: ['queue_item_not_found'],
    verb: items.placeQueueRun,
  })
  .get(`${QUEUE}/size`, {
    id: 'countQueueRuns',
    summary: 'Count what needs the review of the caller, or what has another status',
    description: 'Without `status`, what needs the review of the caller.',
    toleratesUnknown: true,
    params: QueueRef,
    query: s.SizeQuery,
    reply: s.Size,
    errors: ['queue_not_found'],
    verb: items.countQueueRuns,
  })
  .get(`${QUEUE}/total_size`, {
    id: 'countAllQueueRuns',
    summary: 'Count everything in an annotation queue',
    description: 'Reviewed ones too, runs and threads.',
    toleratesUnknown: true,
    params: QueueRef,
    reply: s.Size,
    errors: ['queue_not_found'],
    verb: items.countAllQueueRuns,
  })
  .get(`${QUEUE}/total_archived`, {
    id: 'countArchivedQueueRuns',
    summary: 'Count what has been reviewed',
    description: 'What as many reviewers as the queue asks for have completed, in the window of the query.',
    toleratesUnknown: true,
    params: QueueRef,
    query: s.ArchivedQuery,
    reply: s.Size,
    errors: ['queue_not_found'],
    verb: items.countArchivedQueueRuns,
  })
  .post('/annotation-queues/status/{queue_run_id}', {
    id: 'reviewQueueRun',
    summary: 'Reserve or complete a run of an annotation queue',
    description:
      '`viewed` reserves it for some minutes, if the queue has reservations. `completed` ends the review of the ' +
      'caller, and null takes it back. The judgment itself is feedback: `POST /feedback`.',
    toleratesUnknown: true,
    idempotent: true,
    params: s.ReviewedRunRef,
    body: s.Review,
    reply: s.StoredReview,
    errors: ['queue_item_not_found', 'not_a_reviewer', 'queue_item_taken'],
    verb: reviews.reviewQueueRun,
  })
  .post(ITEMS, {
    id: 'addQueueItems',
    summary: 'Add runs and threads to an annotation queue',
    description: ADDING,
    toleratesUnknown: true,
    idempotent: true,
    params: QueueRef,
    query: s.ItemRetention,
    body: s.NewItems,
    reply: s.Items,
    errors: ['queue_not_found', 'run_not_found', 'project_not_found', 'queue_full'],
    verb: newItems.addQueueItems,
  })
  .get(ITEMS, {
    id: 'listQueueItems',
    summary: 'List the items of an annotation queue in one section',
    description: 'Runs and threads, in the order in which the caller reviews them. Go on while `next_cursor` is set.',
    toleratesUnknown: true,
    params: QueueRef,
    query: s.ItemQuery,
    reply: s.ItemPage,
    errors: ['queue_not_found'],
    verb: items.listQueueItems,
  })
  .get(`${ITEMS}/count`, {
    id: 'countQueueItems',
    summary: 'Count the items of an annotation queue',
    description: 'Without `status`, all items.',
    toleratesUnknown: true,
    params: QueueRef,
    query: s.CountQuery,
    reply: s.Count,
    errors: ['queue_not_found'],
    verb: items.countQueueItems,
  })
  .post(`${ITEMS}/delete`, {
    id: 'deleteQueueItems',
    summary: 'Take items from an annotation queue',
    description: 'Name items by their ids. Runs, threads and feedback stay.',
    toleratesUnknown: true,
    idempotent: true,
    params: QueueRef,
    body: s.ItemIds,
    reply: s.DeletedItems,
    errors: ['queue_not_found'],
    verb: items.deleteQueueItems,
  })
  .patch(`${ITEMS}/{item_id}`, {
    id: 'changeQueueItem',
    summary: 'Change the times of an item',
    description: '`added_at` is its place in the order of the queue. Null stays as it is.',
    toleratesUnknown: true,
    idempotent: true,
    params: s.ItemRef,
    body: s.ItemPatch,
    reply: s.Item,
    errors: ['queue_item_not_found'],
    verb: items.changeQueueItem,
  })
  .get(`${ITEMS}/{item_id}/placement`, {
    id: 'placeQueueItem',
    summary: 'Find the place of an item',
    description: 'In which section it is for the caller, and at which position in it, from 0.',
    toleratesUnknown: true,
    params: s.ItemRef,
    reply: s.ItemPlace,
    errors: ['queue_item_not_found'],
    verb: items.placeQueueItem,
  })
  .post(`${PLATFORM}/items/{item_id}/status`, {
    id: 'reviewQueueItem',
    summary: 'Reserve or complete an item',
    description:
      '`viewed` reserves it for some minutes, if the queue has reservations. `completed` ends the review of the ' +
      'caller, and null takes it back. The judgment itself is feedback: `POST /feedback`.',
    toleratesUnknown: true,
    idempotent: true,
    params: s.ReviewedItemRef,
    body: s.Review,
    reply: s.StoredReview,
    errors: ['queue_item_not_found', 'not_a_reviewer', 'queue_item_taken'],
    verb: reviews.reviewQueueItem,
  })
