// Routes of the protocol between the control plane and agents.

import { validateInput } from '../../kernel/http/input.ts'
import { slice } from '../../kernel/http/routes.ts'
import { AccessRenewals, RenewedAccess } from '../../protocol/access-renewals.schema.ts'
import { CredentialWish, GivenCredential } from '../../protocol/credentials.schema.ts'
import { DrainReports } from '../../protocol/drains.schema.ts'
import { JobReportResults, JobReports } from '../../protocol/jobs.schema.ts'
import { LogBatch, LogReceipt } from '../../protocol/logs.schema.ts'
import { MetricReceipt, Metrics } from '../../protocol/metrics.schema.ts'
import { GivenModelTokens, ModelTokenWish } from '../../protocol/model-tokens.schema.ts'
import { Changes, Poll, Release } from '../../protocol/poll.schema.ts'
import { ReportResults, Reports } from '../../protocol/report.schema.ts'
import { SeenRepository } from '../../protocol/repository-looks.schema.ts'
import { HeldSnapshots, SnapshotReceipt } from '../../protocol/snapshots.schema.ts'
import { ArchiveRef, ArchiveSignature } from '../../protocol/work.schema.ts'
import { HOST_ERRORS } from '../git-hosts/request.ts'
import { renewAccess } from './access-renewals.ts'
import { openArchive } from './archive-download.ts'
import { issueCredential } from './credentials.ts'
import { receiveDrainReports } from './drains.ts'
import { reportJobs } from './jobs.ts'
import { releaseLease } from './lease-release.ts'
import { receiveLogs } from './logs.ts'
import { receiveEarlyMetrics, receiveMetrics } from './metrics.ts'
import { issueModelTokens } from './model-tokens.ts'
import { poll } from './poll.ts'
import { report } from './report.ts'
import { receiveLook } from './repository-looks.ts'
import { receiveSnapshots } from './snapshots.ts'

const archiveLinkInput = { params: ArchiveRef, query: ArchiveSignature }

export const syncRoutes = slice(
  'Sync',
  'The protocol between agents and the control plane, described in PROTOCOL.md. Requires the key of a listener.',
)
  .post('/v1/sync/poll', {
    id: 'poll',
    toleratesUnknown: true,
    summary: 'Acquire or renew the lease, and get the work that changed',
    description: 'With `wait`, the answer comes with the next change, or without changes when the time is over.',
    body: Poll,
    reply: Changes,
    idempotent: true,
    errors: ['listener_not_found', 'lease_held', 'fence_stale'],
    verb: poll,
  })
  .post('/v1/sync/release', {
    id: 'releaseLease',
    toleratesUnknown: true,
    summary: 'Release the lease',
    description: 'For an agent that ends, so that the next agent need not wait until the lease expires.',
    body: Release,
    idempotent: true,
    errors: ['listener_not_found', 'fence_stale'],
    verb: releaseLease,
  })
  .post('/v1/sync/report', {
    id: 'report',
    toleratesUnknown: true,
    summary: 'Report the state of deployments',
    description: 'A repeated report is accepted and changes nothing. Repeat a request that had no answer.',
    body: Reports,
    reply: ReportResults,
    idempotent: true,
    errors: ['listener_not_found', 'fence_stale'],
    verb: report,
  })
  .post('/v1/sync/jobs', {
    id: 'reportJobs',
    toleratesUnknown: true,
    summary: 'Report the state of jobs',
    description:
      'Start a job only once its report `running` is accepted. A repeated report is accepted and changes nothing. ' +
      'Repeat a request that had no answer.',
    body: JobReports,
    reply: JobReportResults,
    idempotent: true,
    errors: ['listener_not_found', 'fence_stale'],
    verb: reportJobs,
  })
  .post('/v1/sync/snapshots', {
    id: 'sendSnapshots',
    toleratesUnknown: true,
    summary: 'Send which snapshots the agent has',
    description:
      'After each change, and once in a while. A snapshot is known from then on, also after its deployment is gone.',
    body: HeldSnapshots,
    reply: SnapshotReceipt,
    idempotent: true,
    errors: ['listener_not_found', 'fence_stale'],
    verb: receiveSnapshots,
  })
  .post('/v1/sync/repositories', {
    id: 'sendRepository',
    toleratesUnknown: true,
    summary: 'Send the refs of a repository by SSH',
    description: 'After each look that a poll asked for. The control plane compares them with what is deployed.',
    body: SeenRepository,
    idempotent: true,
    errors: ['listener_not_found', 'fence_stale'],
    verb: receiveLook,
  })
  .post('/v1/sync/drains', {
    id: 'reportDrains',
    toleratesUnknown: true,
    summary: 'Send what drains have sent, what waits and what was dropped',
    description: 'Counts are totals of an epoch, so a repeated report adds nothing.',
    body: DrainReports,
    idempotent: true,
    errors: ['listener_not_found', 'fence_stale'],
    verb: receiveDrainReports,
  })
  .post('/v1/sync/logs', {
    id: 'sendLogs',
    toleratesUnknown: true,
    summary: 'Send log lines of a build or a run',
    description:
      'The number of the next line is in the answer: go on there, also after a request that had no answer. Lines ' +
      'that were received before are skipped.',
    body: LogBatch,
    reply: LogReceipt,
    idempotent: true,
    errors: ['listener_not_found', 'revision_not_found', 'job_not_found', 'fence_stale'],
    verb: receiveLogs,
  })
  .post('/v1/sync/metrics', {
    id: 'sendMetrics',
    toleratesUnknown: true,
    summary: 'Send what the copies used and answered in the last minute',
    description: 'Optional for agents. A point that was received before changes nothing.',
    body: Metrics,
    reply: MetricReceipt,
    idempotent: true,
    errors: ['listener_not_found', 'fence_stale'],
    verb: receiveMetrics,
  })
  .post('/v1/sync/early-metrics', {
    id: 'sendEarlyMetrics',
    toleratesUnknown: true,
    summary: 'Send what went wrong in the minute that is not over',
    description:
      'Optional for agents. Alert rules look at these points at once. They are not stored: the points of the whole ' +
      'minute follow when it is over.',
    body: Metrics,
    reply: MetricReceipt,
    idempotent: true,
    errors: ['listener_not_found', 'fence_stale'],
    verb: receiveEarlyMetrics,
  })
  .post('/v1/sync/model-tokens', {
    id: 'createModelTokens',
    toleratesUnknown: true,
    summary: 'Issue the tokens by which the applications of the listener call models',
    description: 'They are valid for 15 minutes. Request them again every five.',
    body: ModelTokenWish,
    reply: GivenModelTokens,
    isReadOnly: true,
    errors: ['listener_not_found', 'fence_stale'],
    verb: issueModelTokens,
  })
  .post('/v1/sync/access-renewals', {
    id: 'renewAccess',
    toleratesUnknown: true,
    summary: 'Ask whether people may still see protected deployments',
    description:
      'For pages that stay open: their sessions are asked again, with all that decides what they may read. Optional ' +
      'for agents.',
    body: AccessRenewals,
    reply: RenewedAccess,
    isReadOnly: true,
    errors: ['listener_not_found', 'fence_stale'],
    verb: renewAccess,
  })
  .post('/v1/sync/credentials', {
    id: 'createCredential',
    toleratesUnknown: true,
    summary: 'Get a credential to clone the repository of a revision, or to pull and push its images',
    description: [
      'The credential for a repository comes from its git host, by the integration of the deployment.',
      'The credential for the registry of this installation is valid for an hour.',
      'It allows to pull, and to push if the agent builds the image.',
    ].join(' '),
    body: CredentialWish,
    reply: GivenCredential,
    callsExternalServers: true,
    idempotent: true,
    errors: [
      ...(['listener_not_found', 'revision_not_found', 'fence_stale', 'repository_not_found'] as const),
      ...(['integration_not_found', 'integration_suspended', 'integration_revoked'] as const),
      ...HOST_ERRORS,
    ],
    verb: issueCredential,
  })
  .get('/v1/sync/archives/{workspace_id}/{upload_id}', {
    id: 'downloadArchive',
    summary: 'Download a source archive',
    description: 'The URL is that of an `archive` of a poll. Its signature replaces a key.',
    ...archiveLinkInput,
    streamMediaType: 'application/gzip',
    errors: [
      'download_link_invalid',
      'download_link_expired',
      'archive_not_found',
      'not_configured',
      'storage_unavailable',
    ],
    open: async (c, services) => {
      const input = validateInput(c.req, archiveLinkInput, '', []) as Parameters<typeof openArchive>[1]
      const headers = { 'Content-Type': 'application/gzip', 'Cache-Control': 'no-store' }
      return c.body(await openArchive(services, input), 200, headers)
    },
  })
