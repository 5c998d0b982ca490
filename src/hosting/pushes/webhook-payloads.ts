// Parses webhook payloads into one shape for all git hosts (pure): pushes, pull requests, installations.
import * as z from 'zod'
import { arrayOf, boundedText } from '../../protocol/wire.ts'

export type Commit = { sha: string; message: string | null; author: string | null }
type CommonMembers = {
  /** The host's id of the App's installation. Null where the webhook URL names the integration. */
  installation: string | null
  sender: string | null
}
type RepositoryMembers = CommonMembers & {
  repo_urls: string[]
  /** The host's own id of the repository. Null where it is not known, as in deliveries of an earlier release. */
  repo_id?: string | null
}
/** A ref that moved to `after`, or was deleted. */
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
  /** The head is in another repository, whose authors may have no access to this one. */
  fork: boolean
  /** When the pull request last changed at the host. Of two deliveries, the later one counts. */
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
const MAX_COMMITS = 2048
/** The column `previews.number` is a 32-bit integer. */
const MAX_PULL_NUMBER = 2 ** 31 - 1

// Lengths are checked before patterns: the operator of a git host controls these payloads.
/** Cuts the text, and removes what Postgres cannot store. */
const cleanText = (maxLength: number) => (text: string) => text.slice(0, maxLength).replaceAll('\0', '').toWellFormed()
const Name = z.string().transform(cleanText(MAX_NAME))
const Message = z.string().transform(cleanText(MAX_MESSAGE))
const Sha = boundedText(64).regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/)
/** Hosts write "no commit" as zeros. */
const NullableSha = Sha.transform(sha => (/^0+$/.test(sha) ? null : sha)).nullish()
const Ref = boundedText(MAX_NAME).min(1)
const ShortText = boundedText(MAX_NAME)

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
  before: NullableSha,
  after: NullableSha,
  created: z.boolean().nullish(),
  forced: z.boolean().nullish(),
  head_commit: HeadCommit.nullish(),
  commits: arrayOf(HeadCommit, MAX_COMMITS).nullish(),
  pusher: z.object({ login: Name.nullish(), name: Name.nullish() }).nullish(),
})
export const RefPayload = z.object({ ...RepositoryMembers, ref: Ref, ref_type: ShortText })
export const PullRequestPayload = z.object({
  ...RepositoryMembers,
  action: ShortText,
  number: z.int().positive().max(MAX_PULL_NUMBER),
  pull_request: z.object({
    updated_at: boundedText(64).pipe(z.iso.datetime({ offset: true })),
    head: z.object({ ref: Ref, sha: Sha, repo: z.object({ id: z.number() }).nullish() }),
    base: z.object({ repo: z.object({ id: z.number() }) }),
  }),
})
export const InstallationPayload = z.object({
  ...CommonMembers,
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

function readPush(payload: z.output<typeof PushPayload>): Push {
  const { ref, before = null, after = null, commits, pusher } = payload
  const common = readCommonMembers(payload)
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
