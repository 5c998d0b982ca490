// Schemas of runs as clients send them, of /info, and of their answers. Members that are not known are ignored, because
// clients send more of them with every release.
import * as z from 'zod'
import { arrayOf, boundedText, Uuid } from '../../protocol/wire.ts'
import { MAX_NAME as MAX_PROJECT_NAME } from '../projects/projects.schema.ts'
import { RUN_TYPES } from '../runs/runs.schema.ts'
import { TraceTime } from '../runs/time.schema.ts'

/** The limit of one request: clients send a hundred, and a post and a patch count as two. */
export const MAX_OPERATIONS = 200
const MAX_NAME_LENGTH = 4096
const MAX_TAGS = 1000
/** A trace is at most a hundred segments deep. */
const MAX_DOTTED_ORDER_LENGTH = 6000

export const RunRef = z.object({ run_id: Uuid })

const RunType = z.enum(RUN_TYPES)
const Name = boundedText(MAX_NAME_LENGTH)

const members = {
  id: Uuid.nullish().meta({ description: 'Any UUID. Those of version 7 sort by time.' }),
  trace_id: Uuid.nullish().meta({ description: 'The id of the root of the trace. With `dotted_order`.' }),
  dotted_order: boundedText(MAX_DOTTED_ORDER_LENGTH).nullish().meta({
    description: 'The place in the trace. Without it, the run is the root of its own trace.',
  }),
  parent_run_id: Uuid.nullish(),
  name: Name.nullish(),
  run_type: RunType.nullish(),
  start_time: TraceTime.nullish(),
  end_time: TraceTime.nullish(),
  error: z.string().nullish(),
  tags: arrayOf(Name, MAX_TAGS).nullish(),
  session_id: Uuid.nullish().meta({ description: 'The project. Wins over `session_name`.' }),
  session_name: boundedText(MAX_PROJECT_NAME).nullish().meta({
    description: 'The name of the project, which is created if it does not exist. By default `default`.',
  }),
  reference_example_id: Uuid.nullish(),
}
const requiredOfPost = { name: Name, run_type: RunType, start_time: TraceTime }

export const MEMBER_NAMES = Object.keys(members)

/** The members of a run that are validated. The others are kept as they are sent: see `PAYLOADS` in store.ts. */
export const RunMembers = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('post'), ...members, ...requiredOfPost }),
  z.object({ kind: z.literal('patch'), ...members }),
])

const payload = (description: string) => z.looseObject({}).nullish().meta({ description })
const payloads = {
  inputs: payload('What the run was given.'),
  outputs: payload('What it returned, with `usage_metadata` for tokens and costs.'),
  events: z
    .unknown()
    .optional()
    .meta({ type: 'array', items: { type: 'object' }, description: 'What happened meanwhile, such as new tokens.' }),
  extra: payload('`metadata`, and what else the client knows about the run.'),
  serialized: payload('What ran.'),
}
const example = {
  id: '0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a10',
  name: 'answer',
  run_type: 'chain',
  start_time: '2026-11-22T12:00:00.123456Z',
  end_time: 1_795_348_801_500,
  inputs: { question: 'What is 6 times 7?' },
  outputs: { answer: 42 },
}

export const NewRun = z.object({ ...members, ...requiredOfPost, id: Uuid, ...payloads }).meta({
  id: 'NewRun',
  description: 'One call that an application traced.',
  example,
})

export const RunPatch = z.object({ ...members, ...payloads }).meta({
  id: 'RunPatch',
  description: 'The members of a run that are known later. Absent members and null stay as they are.',
  example: { end_time: '2026-11-22T12:00:01.5Z', outputs: { answer: 42 } },
})

export const RunBatch = z
  .object({ post: arrayOf(NewRun, MAX_OPERATIONS).nullish(), patch: arrayOf(RunPatch, MAX_OPERATIONS).nullish() })
  .meta({ id: 'RunBatch', description: 'Runs and patches, each with its `id`.', example: { post: [example] } })

export const Accepted = z
  .object({
    operations: z.int().meta({ description: 'Runs and patches of runs that were stored.' }),
    feedback: z.int(),
  })
  .meta({ id: 'Accepted' })
export type Accepted = z.output<typeof Accepted>

export const Info = z
  .object({
    version: z.string().meta({ description: 'Of the tracing API, which its clients compare with what they need.' }),
    app_version: z.string().meta({ description: 'The version of this installation.' }),
    git_sha: z.null(),
    license_expiration_time: z.null(),
    customer_info: z.null(),
    batch_ingest_config: z
      .object({
        use_multipart_endpoint: z.boolean(),
        size_limit: z.int().meta({ description: 'Runs and patches in one request.' }),
        size_limit_bytes: z.int().meta({ description: 'Bytes of one request, before they are compressed.' }),
        scale_up_qsize_trigger: z.int(),
        scale_up_nthreads_limit: z.int(),
        scale_down_nempty_trigger: z.int(),
      })
      .meta({ description: 'How clients send runs.' }),
    instance_flags: z.object({
      gzip_body_enabled: z.boolean(),
      zstd_compression_enabled: z.boolean(),
      dataset_examples_multipart_enabled: z.boolean(),
    }),
  })
  .meta({ id: 'Info' })
export type Info = z.output<typeof Info>
