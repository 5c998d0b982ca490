// The interface that every kind of git host implements.
import type { SshKeys } from '../../protocol/repository-looks.schema.ts'
import { parseSshUrl } from '../../protocol/ssh-url.ts'
import type { integrations } from './tables.ts'

export type Repository = {
  id: number
  name: string
  owner: string
  url: string
  default_branch: string
  archived: boolean
  empty: boolean
}
/** One stored page of a host's listing. Its ETag lets the host answer 304 while the page is unchanged. */
export type ListingPage = { etag: string | null; repositories: Repository[] }
export type Commit = { sha: string; author: string | null; message: string | null }
/** A repository as its host describes it. `id` survives a rename and a transfer. */
export type HostedRepository = { id: string; url: string }
export type HostedPull = {
  number: number
  is_open: boolean
  branch: string
  head_sha: string
  /** The head is in another repository, whose authors may have no access to this one. */
  fork: boolean
  /** The time of its last change at the host. */
  at: string
}
/** ETags by URL. A request with one is answered `unchanged` while the answer stays the same; new ones are added. */
export type Etags = Record<string, string>
export type Unchanged = 'unchanged'
/** The webhook of one repository. `id` is null while none is known. */
export type RepositoryWebhook = { id: string | null; url: string; secret: string }
export type StatusState = 'pending' | 'success' | 'failure' | 'error'
export type RevisionPhase = 'queued' | 'in_progress' | 'success' | 'failure' | 'error' | 'skipped'
export type HostedRevision = {
  id: string
  phase: RevisionPhase
  /** The name of the check. */
  context: string
  environment: string
  title: string
  /** Markdown. */
  summary: string
  log_url: string | null
  /** The address of the application, once it serves. */
  url: string | null
}
type CommitStatus = { state: StatusState; url: string | null; description: string; context: string }
type GitCredential = { username: string; password: string; expires_at: string | null } | { ssh: SshKeys }
export type HostToken = { token: string; expires_at: string }

export type Integration = typeof integrations.$inferSelect

/** Methods fail only with codes of `kernel/http/codes.ts`, and send requests only to the integration's own host. */
export type Githost = {
  repositories(stored: ListingPage[]): Promise<ListingPage[]>
  /** Resolves a branch, tag or commit id. Null where the ref or the repository does not exist. */
  commit(repo_url: string, ref: string): Promise<Commit | null>
  /** The same, unless the answer has not changed since the last time. */
  head(repo_url: string, ref: string, etags: Etags): Promise<Commit | null | Unchanged>
  /** By the host's id where that is known, which finds a renamed repository. Null where the host shows none. */
  repository(repo_url: string, id: string | null, etags?: Etags): Promise<HostedRepository | null | Unchanged>
  /** The files that differ between two commits. Null where the host does not tell all of them. */
  changedFiles(repo_url: string, before: string, after: string): Promise<string[] | null>
  openPulls(repo_url: string, etags?: Etags): Promise<HostedPull[] | Unchanged>
  /** The head of each branch by its name. A very long list is cut. */
  branches(repo_url: string, etags?: Etags): Promise<Record<string, string> | Unchanged>
  pull(repo_url: string, number: number): Promise<HostedPull | null>
  /** Limited to reading this one repository where the host supports that. Null for a public one without a login. */
  credential(repo_url: string): Promise<GitCredential | null>
  setStatus(repo_url: string, sha: string, status: CommitStatus): Promise<void>
  /** Shows a revision beside the status of its commit. Null where a host has no more than statuses. */
  showRevision: ((repo_url: string, sha: string, revision: HostedRevision) => Promise<void>) | null
  /** Edits the comment with this id, or with the same first line (`<!-- … -->`), else creates one. Returns its id. */
  comment(repo_url: string, pull_number: number, body: string, comment_id: string | null): Promise<string>
  /**
   * Creates the repository's webhook, or repairs the one with this URL, and returns its id. Null where the host has one
   * webhook for all repositories.
   */
  ensureWebhook(repo_url: string, webhook: RepositoryWebhook): Promise<string | null>
  removeWebhook(repo_url: string, id: string): Promise<void>
  /** The token that this client minted, if any. Store it with `setTokenColumns`, so that the next client reuses it. */
  mintedToken(): HostToken | null
}

/** The webhook of the operator's App has no id; that of an integration with its own credentials has one. */
export const webhookPath = (integration_id?: string): string =>
  `/v1/integrations/forge/githost${integration_id ? `/${integration_id}` : ''}/webhook`

const PATH = /^([\w.-]+)\/([\w.-]+?)(?:\.git)?\/?$/
/** A project of GitLab can be in a group of groups. */
const NESTED_PATH = /^([\w.-]+(?:\/[\w.-]+)*)\/([\w.-]+?)(?:\.git)?\/?$/

/** The owner and name in a repository's URL. Null where the URL is not on this host. */
export function parseRepositoryUrl(
  { host, base_url }: Pick<Integration, 'host' | 'base_url'>,
  repo_url: string,
): { owner: string; name: string } | null {
  if (host === 'git') return parseOwnUrl(base_url, repo_url)
  if (!repo_url.toLowerCase().startsWith(`${base_url.toLowerCase()}/`)) return null
  const path = repo_url.slice(base_url.length + 1)
  const [, owner, name] = (host === 'gitlab' ? NESTED_PATH : PATH).exec(path) ?? []
  if (owner === undefined || name === undefined) return null
  const hasNames = [...owner.split('/'), name].every(part => !/^(\.+|\.git)$/.test(part))
  return hasNames ? { owner, name } : null
}

const withoutSuffix = (url: string): string => {
  const trimmed = url.endsWith('/') ? url.slice(0, -1) : url
  return trimmed.endsWith('.git') ? trimmed.slice(0, -4) : trimmed
}

/** The URL of the integration is that of its only repository. */
function parseOwnUrl(base_url: string, repo_url: string): { owner: string; name: string } | null {
  if (withoutSuffix(base_url) !== withoutSuffix(repo_url)) return null
  const { host, path } = parseSshUrl(base_url) ?? { host: new URL(base_url).host, path: new URL(base_url).pathname }
  const [name = '', ...owner] = withoutSuffix(path).split('/').filter(Boolean).reverse()
  return { owner: owner.reverse().join('/') || host, name }
}
