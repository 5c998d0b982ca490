// What a git host's delivery says, in one shape for all hosts (pure): pushes, pull requests, installations.
import * as z from 'zod'
import { arrayOf, text } from '../kernel/wire.ts'

export type Commit = { sha: string; message: string | null; author: string | null }
type Common = {
  /** The host's own name of the installation that delivers; null where the receiver's address says whose it is. */
  installation: string | null
  /** The login of whoever did it. */
  sender: string | null
}
type OfRepository = Common & { repo_urls: string[] }
/** A ref that is now elsewhere: at `after`, or nowhere. */
export type Push = OfRepository & {
  kind: 'push'
  ref: string
  before: string | null
  after: string | null
  created: boolean
  deleted: boolean
  forced: boolean
  commit: Commit | null
}
export type PullRequest = OfRepository & {
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
export type Installation = Common & {
  kind: 'installation'
  action: 'deleted' | 'suspend' | 'unsuspend' | 'repositories'
  installation: string
}
export type HostEvent = Push | PullRequest | Installation

const LONGEST_MESSAGE = 2000
const LONGEST_NAME = 255
const LONGEST_URL = 2048
/** GitHub lists at most this many in a push. */
const MOST_COMMITS = 2048
/** What the column of a preview's number can hold. */
const MOST_PULLS = 2 ** 31 - 1

// Every length is checked before anything is matched: whoever runs a git host writes these payloads.
/** What the journal and its readers can keep. */
const clean = (most: number) => (written: string) => written.slice(0, most).replaceAll('\0', '').toWellFormed()
const Name = z.string().transform(clean(LONGEST_NAME))
const Message = z.string().transform(clean(LONGEST_MESSAGE))
const Sha = text(64).regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/)
/** Hosts write a commit that is none as zeros. */
const MaybeSha = Sha.transform(sha => (/^0+$/.test(sha) ? null : sha)).nullish()
const Ref = text(LONGEST_NAME).min(1)
const Word = text(LONGEST_NAME)

const Sender = z.object({ login: Name }).nullish()
const Repository = z.object({ id: z.number(), html_url: text(LONGEST_URL), clone_url: text(LONGEST_URL) })
const Common = { sender: Sender, installation: z.object({ id: z.number() }).nullish() }
const OfRepository = { ...Common, repository: Repository }

const HeadCommit = z.object({
  id: Sha,
  message: Message.nullish(),
  author: z.object({ name: Name.nullish(), username: Name.nullish() }).nullish(),
})
export const PushPayload = z.object({
  ...OfRepository,
  ref: Ref,
  before: MaybeSha,
  after: MaybeSha,
  created: z.boolean().nullish(),
  forced: z.boolean().nullish(),
  head_commit: HeadCommit.nullish(),
  commits: arrayOf(HeadCommit, MOST_COMMITS).nullish(),
  pusher: z.object({ login: Name.nullish(), name: Name.nullish() }).nullish(),
})
export const RefPayload = z.object({ ...OfRepository, ref: Ref, ref_type: Word })
export const PullPayload = z.object({
  ...OfRepository,
  action: Word,
  number: z.int().positive().max(MOST_PULLS),
  pull_request: z.object({
    updated_at: text(64).pipe(z.iso.datetime({ offset: true })),
    head: z.object({ ref: Ref, sha: Sha, repo: z.object({ id: z.number() }).nullish() }),
    base: z.object({ repo: z.object({ id: z.number() }) }),
  }),
})
export const InstallationPayload = z.object({ ...Common, action: Word, installation: z.object({ id: z.number() }) })

/** GitHub's word first, then Gitea's where it is another. */
const ACTIONS = new Map<string, PullRequest['action']>([
  ['opened', 'opened'],
  ['reopened', 'reopened'],
  ['synchronize', 'synchronize'],
  ['synchronized', 'synchronize'],
  ['closed', 'closed'],
])
const BRANCHES = 'refs/heads/'
const FOLDERS = new Map([
  ['branch', BRANCHES],
  ['tag', 'refs/tags/'],
])

type Shared = { sender?: { login: string } | null | undefined; installation?: { id: number } | null | undefined }
const common = ({ sender, installation }: Shared): Common => ({
  sender: sender?.login ?? null,
  installation: installation ? String(installation.id) : null,
})
const urlsOf = ({ html_url, clone_url }: z.output<typeof Repository>) => [...new Set([html_url, clone_url])]

const commitOf = ({ id, message, author }: z.output<typeof HeadCommit>): Commit => ({
  sha: id,
  message: message ?? null,
  author: author?.name ?? author?.username ?? null,
})

function push(payload: z.output<typeof PushPayload>): Push {
  const { ref, before = null, after = null, commits, pusher } = payload
  const shared = common(payload)
  const head = payload.head_commit ?? commits?.find(commit => commit.id === after)
  return {
    kind: 'push',
    ...shared,
    sender: shared.sender ?? pusher?.login ?? pusher?.name ?? null,
    repo_urls: urlsOf(payload.repository),
    ...{ ref, before, after },
    created: payload.created ?? (before === null && after !== null),
    deleted: after === null,
    forced: payload.forced ?? false,
    commit: head && head.id === after ? commitOf(head) : null,
  }
}

/** Some hosts tell of a ref's coming and going by these alone. */
const refMoved =
  (deleted: boolean) =>
  (payload: z.output<typeof RefPayload>): Push | null => {
    const folder = FOLDERS.get(payload.ref_type)
    if (folder === undefined) return null
    const ref = payload.ref.startsWith('refs/') ? payload.ref : `${folder}${payload.ref}`
    const still = { before: null, after: null, forced: false, commit: null }
    const repo_urls = urlsOf(payload.repository)
    return { kind: 'push', ...common(payload), repo_urls, ref, ...still, created: !deleted, deleted }
  }

function pullRequest(payload: z.output<typeof PullPayload>): PullRequest | null {
  const action = ACTIONS.get(payload.action)
  if (action === undefined) return null
  const { head, base, updated_at } = payload.pull_request
  return {
    kind: 'pull_request',
    ...common(payload),
    repo_urls: urlsOf(payload.repository),
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
const standing = (payload: z.output<typeof InstallationPayload>): Installation | null => {
  const { action, installation } = payload
  if (action !== 'deleted' && action !== 'suspend' && action !== 'unsuspend') return null
  return { kind: 'installation', ...common(payload), action, installation: String(installation.id) }
}
const reach = (payload: z.output<typeof InstallationPayload>): Installation => ({
  ...{ kind: 'installation', ...common(payload) },
  ...{ action: 'repositories', installation: String(payload.installation.id) },
})

const reading = <S extends z.ZodType>(schema: S, read: (payload: z.output<S>) => HostEvent | null) => {
  return (payload: unknown) => read(schema.parse(payload))
}
const READERS: Record<string, (payload: unknown) => HostEvent | null> = {
  push: reading(PushPayload, push),
  create: reading(RefPayload, refMoved(false)),
  delete: reading(RefPayload, refMoved(true)),
  pull_request: reading(PullPayload, pullRequest),
  pull_request_sync: reading(PullPayload, pullRequest),
  installation: reading(InstallationPayload, standing),
  installation_repositories: reading(InstallationPayload, reach),
}

/** What is to be done about a delivery; null where nothing is. Throws zod's error where the payload is not what the host documents. */
export const eventOf = (name: string, payload: unknown): HostEvent | null =>
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
export function spellings(ref: string): string[] {
  const branch = ref.startsWith(BRANCHES) ? ref.slice(BRANCHES.length) : ''
  return branch ? [ref, branch, `heads/${branch}`] : [ref]
}
