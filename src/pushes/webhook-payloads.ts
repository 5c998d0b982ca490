// What a git host's delivery says, in one shape for all hosts (pure): pushes, pull requests, installations.
import * as z from 'zod'
import { arrayOf, boundedText } from '../protocol/wire.ts'

export type Commit = { sha: string; message: string | null; author: string | null }
type CommonMembers = {
  /** The host's own name of the installation that delivers; null where the receiver's address says whose it is. */
  installation: string | null
  /** The login of whoever did it. */
  sender: string | null
}
type RepositoryMembers = CommonMembers & { repo_urls: string[] }
/** A ref that is now elsewhere: at `after`, or nowhere. */
export type Push = RepositoryMembers & {
  kind: 'push'
  ref: string
  before: string | null
  after: string | null
  created: boolean
  deleted: boolean
  forced: boolean
  commit: Commit | null
}
export type PullRequest = RepositoryMembers & {
  kind: 'pull_request'
  action: 'opened' | 'reopened' | 'synchronize' | 'closed'
  number: number
  branch: string
  head_sha: string
  /** Of another repository, whose people are not this one's. */
  fork: boolean
  /** When the host last changed it: of two deliveries, the later one counts. */
  at: string
}
export type InstallationDelivery = CommonMembers & {
  kind: 'installation'
  action: 'deleted' | 'suspend' | 'unsuspend' | 'repositories'
  installation: string
}
export type HostEvent = Push | PullRequest | InstallationDelivery

const MAX_MESSAGE = 2000
const MAX_NAME = 255
const MAX_URL = 2048
/** GitHub lists at most this many in a push. */
const MAX_COMMITS = 2048
/** What the column of a preview's number can hold. */
const MAX_PULL_NUMBER = 2 ** 31 - 1

// Every length is checked before anything is matched: whoever runs a git host writes these payloads.
/** What the journal and its readers can keep. */
const cleanText = (most: number) => (written: string) => written.slice(0, most).replaceAll('\0', '').toWellFormed()
const Name = z.string().transform(cleanText(MAX_NAME))
const Message = z.string().transform(cleanText(MAX_MESSAGE))
const Sha = boundedText(64).regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/)
/** Hosts write a commit that is none as zeros. */
const MaybeSha = Sha.transform(sha => (/^0+$/.test(sha) ? null : sha)).nullish()
const Ref = boundedText(MAX_NAME).min(1)
const Word = boundedText(MAX_NAME)

const Sender = z.object({ login: Name }).nullish()
const Repository = z.object({ id: z.number(), html_url: boundedText(MAX_URL), clone_url: boundedText(MAX_URL) })
const CommonMembers = { sender: Sender, installation: z.object({ id: z.number() }).nullish() }
const RepositoryMembers = { ...CommonMembers, repository: Repository }

const HeadCommit = z.object({
  id: Sha,
  message: Message.nullish(),
  author: z.object({ name: Name.nullish(), username: Name.nullish() }).nullish(),
})
export const PushPayload = z.object({
  ...RepositoryMembers,
  ref: Ref,
  before: MaybeSha,
  after: MaybeSha,
  created: z.boolean().nullish(),
  forced: z.boolean().nullish(),
  head_commit: HeadCommit.nullish(),
  commits: arrayOf(HeadCommit, MAX_COMMITS).nullish(),
  pusher: z.object({ login: Name.nullish(), name: Name.nullish() }).nullish(),
})
export const RefPayload = z.object({ ...RepositoryMembers, ref: Ref, ref_type: Word })
export const PullRequestPayload = z.object({
  ...RepositoryMembers,
  action: Word,
  number: z.int().positive().max(MAX_PULL_NUMBER),
  pull_request: z.object({
    updated_at: boundedText(64).pipe(z.iso.datetime({ offset: true })),
    head: z.object({ ref: Ref, sha: Sha, repo: z.object({ id: z.number() }).nullish() }),
    base: z.object({ repo: z.object({ id: z.number() }) }),
  }),
})
export const InstallationPayload = z.object({
  ...CommonMembers,
  action: Word,
  installation: z.object({ id: z.number() }),
})

/** GitHub's word first, then Gitea's where it is another. */
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
const repositoryUrls = ({ html_url, clone_url }: z.output<typeof Repository>) => [...new Set([html_url, clone_url])]

const readCommit = ({ id, message, author }: z.output<typeof HeadCommit>): Commit => ({
  sha: id,
  message: message ?? null,
  author: author?.name ?? author?.username ?? null,
})

function readPush(payload: z.output<typeof PushPayload>): Push {
  const { ref, before = null, after = null, commits, pusher } = payload
  const shared = readCommonMembers(payload)
  const head = payload.head_commit ?? commits?.find(commit => commit.id === after)
  return {
    kind: 'push',
    ...shared,
    sender: shared.sender ?? pusher?.login ?? pusher?.name ?? null,
    repo_urls: repositoryUrls(payload.repository),
    ...{ ref, before, after },
    created: payload.created ?? (before === null && after !== null),
    deleted: after === null,
    forced: payload.forced ?? false,
    commit: head && head.id === after ? readCommit(head) : null,
  }
}

/** Some hosts tell of a ref's coming and going by these alone. */
const readRefChange =
  (deleted: boolean) =>
  (payload: z.output<typeof RefPayload>): Push | null => {
    const folder = REF_PREFIXES.get(payload.ref_type)
    if (folder === undefined) return null
    const ref = payload.ref.startsWith('refs/') ? payload.ref : `${folder}${payload.ref}`
    const still = { before: null, after: null, forced: false, commit: null }
    const repo_urls = repositoryUrls(payload.repository)
    return { kind: 'push', ...readCommonMembers(payload), repo_urls, ref, ...still, created: !deleted, deleted }
  }

function readPullRequest(payload: z.output<typeof PullRequestPayload>): PullRequest | null {
  const action = PULL_REQUEST_ACTIONS.get(payload.action)
  if (action === undefined) return null
  const { head, base, updated_at } = payload.pull_request
  return {
    kind: 'pull_request',
    ...readCommonMembers(payload),
    repo_urls: repositoryUrls(payload.repository),
    action,
    number: payload.number,
    branch: head.ref,
    head_sha: head.sha,
    // A fork that was deleted is still one.
    fork: head.repo?.id !== base.repo.id,
    at: new Date(updated_at).toISOString(),
  }
}

/** Who has one proves it when connecting; of what is made at the host there is nothing to do. */
const readInstallation = (payload: z.output<typeof InstallationPayload>): InstallationDelivery | null => {
  const { action, installation } = payload
  if (action !== 'deleted' && action !== 'suspend' && action !== 'unsuspend') return null
  return { kind: 'installation', ...readCommonMembers(payload), action, installation: String(installation.id) }
}
const readRepositoriesChange = (payload: z.output<typeof InstallationPayload>): InstallationDelivery => ({
  ...{ kind: 'installation', ...readCommonMembers(payload) },
  ...{ action: 'repositories', installation: String(payload.installation.id) },
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
  installation_repositories: payloadReader(InstallationPayload, readRepositoriesChange),
}

/** What is to be done about a delivery; null where nothing is. Throws zod's error where the payload is not what the host documents. */
export const parseDelivery = (name: string, payload: unknown): HostEvent | null =>
  Object.hasOwn(READERS, name) ? READERS[name]!(payload) : null

/**
 * The same key for all spellings of a repository's address: without scheme, case, `.git` and trailing slashes. The
 * column `repo_key` is computed by the same rule in SQL.
 */
export function repoKey(url: string): string {
  const lower = url.toLowerCase()
  const scheme = ['https://', 'http://'].find(one => lower.startsWith(one)) ?? ''
  const path = withoutEndSlashes(lower.slice(scheme.length))
  return path.endsWith('.git') ? withoutEndSlashes(path.slice(0, -'.git'.length)) : path
}

function withoutEndSlashes(path: string): string {
  let end = path.length
  while (path[end - 1] === '/') end--
  return path.slice(0, end)
}

/** How a deployment may write the ref in its `repo_ref`: in full, or a branch by its name. */
export function refSpellings(ref: string): string[] {
  const branch = ref.startsWith(BRANCH_PREFIX) ? ref.slice(BRANCH_PREFIX.length) : ''
  return branch ? [ref, branch, `heads/${branch}`] : [ref]
}
