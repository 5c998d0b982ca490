// Routes that take runs, and the one that says how to send them.
import { type RawOperation, slice } from '../../kernel/http/routes.ts'
import { readInfo } from '../runs/info.ts'
import * as s from './ingestion.schema.ts'
import { createRun, createRuns, createRunsFromParts, patchRun } from './ingestion.ts'

const ingestion = {
  status: 202,
  idempotent: true,
  toleratesUnknown: true,
  errors: [
    'batch_too_large',
    'media_type_unsupported',
    'encoding_unsupported',
    'project_not_found',
    'run_in_other_project',
    'bodies_busy',
    'trace_storage_unavailable',
  ],
} satisfies Partial<RawOperation>

const ID = '0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a10'
const partExample = (name: string, value: object) => {
  const json = JSON.stringify(value)
  return [
    '--part',
    `Content-Disposition: form-data; name="${name}"`,
    `Content-Type: application/json; length=${json.length}`,
    '',
    json,
    '',
  ].join('\r\n')
}
const { inputs, outputs, ...run } = s.NewRun.meta()!.example as Record<string, object>

export const ingestionRoutes = slice('Ingestion', 'Runs of applications, as tracing clients send them.')
  .get('/info', {
    id: 'readInfo',
    summary: 'Read how this installation takes runs',
    description:
      'Takes no API key. Tracing clients read it first: which compressions and routes they can use, and how large a ' +
      'batch may be.',
    reply: s.Info,
    open: async (c, { platform }) => c.json(await readInfo(platform)),
  })
  .post('/runs', {
    id: 'createRun',
    summary: 'Send a run',
    description: 'A run that exists is merged with this one. Sending it again changes nothing.',
    rawBody: { 'application/json': { schema: s.NewRun } },
    reply: s.Accepted,
    ...ingestion,
    verb: createRun,
  })
  .patch('/runs/{run_id}', {
    id: 'patchRun',
    summary: 'Send what is known later of a run',
    description: 'Without `dotted_order`, the run exists already. With it, the patch may come before the run.',
    params: s.RunRef,
    rawBody: { 'application/json': { schema: s.RunPatch } },
    reply: s.Accepted,
    ...ingestion,
    errors: [...ingestion.errors, 'run_not_found'],
    verb: patchRun,
  })
  .post('/runs/batch', {
    id: 'createRuns',
    summary: 'Send runs and patches of runs',
    description: 'All of them are stored, or none.',
    rawBody: { 'application/json': { schema: s.RunBatch } },
    reply: s.Accepted,
    ...ingestion,
    errors: [...ingestion.errors, 'run_not_found'],
    verb: createRuns,
  })
  .post('/runs/multipart', {
    id: 'createRunsFromParts',
    summary: 'Send runs, patches, attachments and feedback, each as parts of their own',
    description: [
      'A part has its length, as the parameter `length` of its `Content-Type` or as `Content-Length`. Its name is:',
      '`post.<run id>` or `patch.<run id>` for a run without `inputs`, `outputs` and `events`;',
      '`post.<run id>.inputs` for a member (also `outputs`, `events`, `extra`, `error` and `serialized`);',
      '`attachment.<run id>.<name>` for bytes of any type, at most 1000; `feedback.<feedback id>` for feedback.',
      'All of them are stored, or none.',
    ].join(' '),
    rawBody: {
      'multipart/form-data': {
        example: {
          contentType: 'multipart/form-data; boundary=part',
          text: [
            partExample(`post.${ID}`, run),
            partExample(`post.${ID}.inputs`, inputs!),
            partExample(`post.${ID}.outputs`, outputs!),
            '--part--\r\n',
          ].join(''),
        },
      },
    },
    reply: s.Accepted,
    ...ingestion,
    errors: [...ingestion.errors, 'run_not_found'],
    verb: createRunsFromParts,
  })
