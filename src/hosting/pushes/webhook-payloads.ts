// Parses webhook payloads into one shape for all git hosts (pure): pushes, pull requests, installations.
import * as z from 'zod'
import { arrayOf, boundedText } from '../../protocol/wire.ts'
import { MAX_PULL_NUMBER } from '../git-hosts/host-responses.ts'
import { GitlabMergeRequest, GitlabPush, readGitlabMergeRequest, readGitlabPush } from './gitlab-payloads.ts'
import {
  type Commit,
  type CommonMembers,
  HeadCommit,
  type HostEvent,
  type InstallationDelivery,
  MAX_URL,
  Name,
  NullableSha,
  type PullRequest,
  type Push,
  Ref,
  Sha,
  ShortText,
} from './payload-parts.ts'

export type { Commit, HostEvent, InstallationDelivery, PullRequest, Push } from './payload-parts.ts'

const MAX_COMMITS = 2048
const MAX_FILES = 1000
const FilePaths = arrayOf(boundedText(4096), MAX_FILES).nullish().catch(null)
const PushedCommit = HeadCommit.extend({ added: FilePaths, modified: FilePaths, removed: FilePaths })

const Sender = z.object({ login: Name }).nullish()
const Repository = z.object({ id: z.number(), html_url: boundedText(MAX_URL), clone_url: boundedText(MAX_URL) })
const CommonFields = { sender: Sender, installation: z.object({ id: z.number() }).nullish() }
const RepositoryFields = { ...CommonFields, repository: Repository }

export const PushPayload = z.object({
  ...RepositoryFields,
  ref: Ref,
  before: NullableSha,
  after: NullableSha,
  created: z.boolean().nullish(),
  forced: z.boolean().nullish(),
  head_commit: HeadCommit.nullish(),
  commits: arrayOf(PushedCommit, MAX_COMMITS).nullish(),
  pusher: z.object({ login: Name.nullish(), name: Name.nullish() }).nullish(),
})
export const RefPayload = z.object({ ...RepositoryFields, ref: Ref, ref_type: ShortText })
export const PullRequestPayload = z.object({
  ...RepositoryFields,
  action: ShortText,
  number: z.int().positive().max(MAX_PULL_NUMBER),
  pull_request: z.object({
    updated_at: boundedText(64).pipe(z.iso.datetime({ offset: true })),
    head: z.object({ ref: Ref, sha: Sha, repo: z.object({ id: z.number() }).nullish() }),
    base: z.object({ repo: z.object({ id: z.number() }) }),
  }),
})
export const InstallationPayload = z.object({
  ...CommonFields,
  action: ShortText,
  installation: z.object({ id: z.number() }),
})

/** `synchronized` is Gitea's spelling. */
const PULL_REQUEST_ACTIONS = new Map<string, PullRequest['action']>([
  ['opened', 'opened'],
  ['reopened', 'reopened'],
  ['synchronize', 'synchronize'],
  ['synchronized', 'synchronize'],
  ['closed', 'closed'],
])
const BRANCH_PREFIX = 'refs/heads/'
const REF_PREFIXES = new Map([
  ['branch', BRANCH_PREFIX],
  ['tag', 'refs/tags/'],
])

type CommonPayload = { sender?: { login: string } | null | undefined; installation?: { id: number } | null | undefined }
const readCommonMembers = ({ sender, installation }: CommonPayload): CommonMembers => ({
  sender: sender?.login ?? null,
  installation: installation ? String(installation.id) : null,
})
const readRepository = ({ id, html_url, clone_url }: z.output<typeof Repository>) => ({
  repo_urls: [...new Set([html_url, clone_url])],
  repo_id: String(id),
})

const readCommit = ({ id, message, author }: z.output<typeof HeadCommit>): Commit => ({
  sha: id,
  message: message ?? null,
  author: author?.name ?? author?.username ?? null,
})

/** The commits of a push that is no fast-forward do not tell what it took away. Only GitHub says whether it is one. */
function listFiles({ before, forced, commits }: z.output<typeof PushPayload>): string[] | null {
  if (before == null || forced !== false || commits == null || commits.length >= MAX_COMMITS) return null
  const files = new Set<string>()
  for (const { added, modified, removed } of commits) {
    if (added == null || modified == null || removed == null) return null
    for (const file of [...added, ...modified, ...removed]) files.add(file)
    if (files.size > MAX_FILES) return null
  }
  return [...files]
}

function readPush(payload: z.output<typeof PushPayload>): Push {
  const { ref, before = null, after = null, commits, pusher } = payload
  const common = readCommonMembers(payload)
  const files = after === null ? null : listFiles(payload)
  const head = payload.head_commit ?? commits?.find(commit => commit.id === after)
  return {
    kind: 'push',
    ...common,
    sender: common.sender ?? pusher?.login ?? pusher?.name ?? null,
    ...readRepository(payload.repository),
    ref,
    before,
    after,
    created: payload.created ?? (before === null && after !== null),
    deleted: after === null,
    forced: payload.forced ?? false,
    commit: head && head.id === after ? readCommit(head) : null,
    ...(files !== null && { files }),
  }
}

/** Some hosts announce a created or deleted ref only by these events, without a push. */
const readRefChange =
  (deleted: boolean) =>
  (payload: z.output<typeof RefPayload>): Push | null => {
    const prefix = REF_PREFIXES.get(payload.ref_type)
    if (prefix === undefined) return null
    const ref = payload.ref.startsWith('refs/') ? payload.ref : `${prefix}${payload.ref}`
    const unknown = { before: null, after: null, forced: false, commit: null }
    const common = { ...readCommonMembers(payload), ...readRepository(payload.repository) }
    return { kind: 'push', ...common, ref, ...unknown, created: !deleted, deleted }
  }

function readPullRequest(payload: z.output<typeof PullRequestPayload>): PullRequest | null {
  const action = PULL_REQUEST_ACTIONS.get(payload.action)
  if (action === undefined) return null
  const { head, base, updated_at } = payload.pull_request
  return {
    kind: 'pull_request',
    ...readCommonMembers(payload),
    ...readRepository(payload.repository),
    action,
    number: payload.number,
    branch: head.ref,
    head_sha: head.sha,
    // A deleted fork has no repository.
    fork: head.repo?.id !== base.repo.id,
    at: new Date(updated_at).toISOString(),
  }
}

/** `created` needs no handling: an installation becomes an integration when someone connects it. */
const readInstallation = (payload: z.output<typeof InstallationPayload>): InstallationDelivery | null => {
  const { action, installation } = payload
  if (action !== 'deleted' && action !== 'suspend' && action !== 'unsuspend') return null
  return { kind: 'installation', ...readCommonMembers(payload), action, installation: String(installation.id) }
}
const readRepositoriesChange = (payload: z.output<typeof InstallationPayload>): InstallationDelivery => ({
  kind: 'installation',
  ...readCommonMembers(payload),
  action: 'repositories',
  installation: String(payload.installation.id),
})

const payloadReader = <S extends z.ZodType>(schema: S, read: (payload: z.output<S>) => HostEvent | null) => {
  return (payload: unknown) => read(schema.parse(payload))
}
const READERS: Record<string, (payload: unknown) => HostEvent | null> = {
  push: payloadReader(PushPayload, readPush),
  create: payloadReader(RefPayload, readRefChange(false)),
  delete: payloadReader(RefPayload, readRefChange(true)),
  pull_request: payloadReader(PullRequestPayload, readPullRequest),
  pull_request_sync: payloadReader(PullRequestPayload, readPullRequest),
  installation: payloadReader(InstallationPayload, readInstallation),
  'Push Hook': payloadReader(GitlabPush, readGitlabPush),
  'Merge Request Hook': payloadReader(GitlabMergeRequest, readGitlabMergeRequest),
  installation_repositories: payloadReader(InstallationPayload, readRepositoriesChange),
}

/** Null where the event needs no handling. Throws a zod error where the payload is not as the host documents it. */
export const parseDelivery = (name: string, payload: unknown): HostEvent | null =>
  Object.hasOwn(READERS, name) ? READERS[name]!(payload) : null

const SKIP_MARKS = ['[skip ci]', '[ci skip]', '[skip deploy]']
/** The author of the commit wants no deployment of it. */
export function isSkipped(message: string | null): boolean {
  const text = message?.toLowerCase() ?? ''
  return SKIP_MARKS.some(mark => text.includes(mark))
}

/** The full name of a ref as a deployment has it. */
export function fullRef(ref: string): string {
  if (ref.startsWith('refs/')) return ref
  return ref.startsWith('heads/') ? `refs/${ref}` : `${BRANCH_PREFIX}${ref}`
}

/** The spellings of a ref in a deployment's `repo_ref`: in full, or a branch by its name. */
export function refSpellings(ref: string): string[] {
  const branch = ref.startsWith(BRANCH_PREFIX) ? ref.slice(BRANCH_PREFIX.length) : ''
  return branch ? [ref, branch, `heads/${branch}`] : [ref]
}
