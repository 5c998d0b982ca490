// How HTTP reaches the protocol between the control plane and agents.
import { HOST_ERRORS } from '../integrations/request.ts'
import { validateInput } from '../kernel/input.ts'
import { slice } from '../kernel/routes.ts'
import { CredentialWish, GivenCredential } from '../protocol/credentials.schema.ts'
import { LogBatch, LogReceipt } from '../protocol/logs.schema.ts'
import { Changes, Poll, Release } from '../protocol/poll.schema.ts'
import { ReportResults, Reports } from '../protocol/report.schema.ts'
import { ArchiveRef, ArchiveSignature } from '../protocol/work.schema.ts'
import { openArchive } from './archive-download.ts'
import { issueCredential } from './credentials.ts'
import { releaseLease } from './lease-release.ts'
import { receiveLogs } from './logs.ts'
import { poll } from './poll.ts'
import { report } from './report.ts'

const archiveLinkInput = { params: ArchiveRef, query: ArchiveSignature }

export const syncRoutes = slice(
  'Sync',
  'What agents say to the control plane: PROTOCOL.md tells the whole of it. These take the key of a listener.',
)
  .post('/v1/sync/poll', {
    id: 'poll',
    summary: 'Take or renew the lease, and get the work that changed',
    description: 'With `wait`, the answer comes with the next change, or empty when the time is up.',
    body: Poll,
    reply: Changes,
    idempotent: true,
    errors: ['listener_not_found', 'lease_held', 'fence_stale'],
    verb: poll,
  })
  .post('/v1/sync/release', {
    id: 'releaseLease',
    summary: 'Give the lease back',
    description: 'By an agent that ends: another one then need not wait until the lease runs out.',
    body: Release,
    idempotent: true,
    errors: ['listener_not_found', 'fence_stale'],
    verb: releaseLease,
  })
  .post('/v1/sync/report', {
    id: 'report',
    summary: 'Say what became of deployments',
    description:
      'What was accepted once is accepted again and changes nothing, so a request without an answer is repeated.',
    body: Reports,
    reply: ReportResults,
    idempotent: true,
    errors: ['listener_not_found', 'fence_stale'],
    verb: report,
  })
  .post('/v1/sync/logs', {
    id: 'sendLogs',
    summary: 'Send lines of a build or a run',
    body: LogBatch,
    reply: LogReceipt,
    idempotent: true,
    errors: ['listener_not_found', 'revision_not_found', 'fence_stale'],
    verb: receiveLogs,
  })
  .post('/v1/sync/credentials', {
    id: 'giveCredential',
    summary: 'What to clone the repository of a revision with, or to pull and push its images',
    description:
      'For a repository its git host is asked, by the integration that the deployment was made with. For the registry of this installation nobody is asked: what is given logs in there for an hour, to pull, and to push where the agent builds the image itself.',
    body: CredentialWish,
    reply: GivenCredential,
    asksForeignServers: true,
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
    description: 'The address is that of an `archive` of a poll: its signature stands in for a key.',
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
