// What a git host is to us, whichever it is.
import type { Services } from '../kernel/routes.ts'
import type { integrations } from '../tables/integrations.ts'
import { createGiteaHost } from './gitea.ts'
import { createGithubHost } from './github.ts'

export type Repository = { id: number; name: string; owner: string; url: string; default_branch: string }
/** One page of a host's listing as it was last told; with its ETag it need only be told again when it changed. */
export type ListingPage = { etag: string | null; repositories: Repository[] }
export type Commit = { sha: string; author: string | null; message: string | null }
export type StatusState = 'pending' | 'success' | 'failure' | 'error'
export type CommitStatus = { state: StatusState; url: string | null; description: string; context: string }
/** For git over HTTP. */
export type GitCredential = { username: string; password: string; expires_at: string | null }
/** What the host gave for a while. */
export type HostToken = { token: string; expires_at: string }

export type Integration = typeof integrations.$inferSelect

/** Every method throws the closed codes only, and asks nobody but the integration's own host. */
export type Githost = {
  /** All that the integration reaches, page by page; unchanged pages are the known ones. */
  repositories(known: ListingPage[]): Promise<ListingPage[]>
  /** The commit that a branch, a tag or a commit's name stands for; null where there is none, or no such repository. */
  commit(repo_url: string, ref: string): Promise<Commit | null>
  /** Reads that one repository, where the host can narrow it so. */
  credential(repo_url: string): Promise<GitCredential>
  setStatus(repo_url: string, sha: string, status: CommitStatus): Promise<void>
  /**
   * Makes a comment or edits the one of that id; one that somebody deleted is made anew. Without an id, one that begins with the same mark
   * (`<!-- … -->`) is edited. Its id.
   */
  comment(repo_url: string, pull_number: number, body: string, comment_id: string | null): Promise<string>
  /** A fresh token that was got on the way: kept with the row (`tokenColumns`), it spares the next one the asking. */
  mintedToken(): HostToken | null
}

/** An integration's host, asked on behalf of whoever has its row. */
export const createGithost = (
  services: Pick<Services, 'config' | 'sealer'>,
  origin: string,
  integration: Integration,
): Githost => (integration.host === 'github' ? createGithubHost : createGiteaHost)(services, origin, integration)

/** Where a host sends what happens: that of the operator's App, or that of an integration with credentials of its own. */
export const webhookPath = (integration_id?: string): string =>
  `/v1/integrations/forge/githost${integration_id ? `/${integration_id}` : ''}/webhook`

/** The owner and name in a repository's address, if it is one of that host. */
export function parseRepositoryUrl(base_url: string, repo_url: string): { owner: string; name: string } | null {
  if (!repo_url.toLowerCase().startsWith(`${base_url.toLowerCase()}/`)) return null
  const [, owner, name] = /^([\w.-]+)\/([\w.-]+?)(?:\.git)?\/?$/.exec(repo_url.slice(base_url.length + 1)) ?? []
  const named = [owner, name].every(part => part !== undefined && !/^(\.+|\.git)$/.test(part))
  return named ? { owner: owner!, name: name! } : null
}
