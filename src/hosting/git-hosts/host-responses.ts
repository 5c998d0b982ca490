// Schemas of the responses of git hosts: GitHub and Gitea share most of them.
import * as z from 'zod'
import { arrayOf, boundedText } from '../../protocol/wire.ts'
import type { Commit, HostedPull, HostedRepository, Repository } from './githost.ts'

export const PathName = boundedText(255).regex(/^(?!\.+$)[\w.-]+$/)
export const truncatedText = (maxLength: number) =>
  z.string().transform(text => text.slice(0, maxLength).replaceAll('\0', '').toWellFormed())

export const ListedRepository = z.object({
  id: z.int().min(0),
  name: PathName,
  owner: z.object({ login: PathName }),
  default_branch: truncatedText(255).nullish(),
  archived: z.boolean().nullish(),
  /** Gitea says it. GitHub says the size, which is 0 for a while also after the first push. */
  empty: z.boolean().nullish(),
})
export const RepositoryListing = z.object({
  total_count: z.int().min(0),
  repositories: arrayOf(ListedRepository, 1000),
})

/** Builds the URL from `base_url`: a URL in the response could point to another host. */
export const toRepository = (
  base_url: string,
  { id, name, owner: { login }, default_branch, archived, empty }: z.output<typeof ListedRepository>,
): Repository => ({
  id,
  name,
  owner: login,
  url: `${base_url}/${login}/${name}`,
  default_branch: default_branch ?? '',
  archived: archived ?? false,
  empty: empty ?? false,
})

export const Sha = boundedText(64).regex(/^[0-9a-f]{40}([0-9a-f]{24})?$/)
export const CommitResponse = z.object({
  sha: Sha,
  commit: z.object({ message: truncatedText(10_000), author: z.object({ name: truncatedText(255) }).nullish() }),
  author: z.object({ login: truncatedText(255).nullish() }).nullish(),
})

export const toCommit = ({ sha, commit, author }: z.output<typeof CommitResponse>): Commit => ({
  sha,
  author: author?.login ?? commit.author?.name ?? null,
  message: commit.message,
})

export const toHostedRepository = (
  base_url: string,
  { id, name, owner }: z.output<typeof ListedRepository>,
): HostedRepository => ({ id: String(id), url: `${base_url}/${owner.login}/${name}` })

/** The column `previews.number` is a 32-bit integer. */
export const MAX_PULL_NUMBER = 2 ** 31 - 1
const RepositoryId = z.object({ id: z.number() })
export const PullResponse = z.object({
  number: z.int().positive().max(MAX_PULL_NUMBER),
  state: boundedText(20),
  updated_at: boundedText(64).pipe(z.iso.datetime({ offset: true })),
  head: z.object({ ref: boundedText(255).min(1), sha: Sha, repo: RepositoryId.nullish() }),
  base: z.object({ repo: RepositoryId.nullish() }),
})
export const PullResponses = arrayOf(PullResponse, 1000)
export const toHostedPull = ({ number, state, updated_at, head, base }: z.output<typeof PullResponse>): HostedPull => ({
  number,
  is_open: state === 'open',
  branch: head.ref,
  head_sha: head.sha,
  // A deleted fork has no repository.
  fork: head.repo == null || head.repo.id !== base.repo?.id,
  at: new Date(updated_at).toISOString(),
})

const FilePath = boundedText(4096)
/** GitHub lists at most 300 files. It compares with the merge base, so only what is ahead of it is complete. */
const MAX_COMPARED_FILES = 300
export const GithubComparison = z.object({
  status: boundedText(20),
  files: arrayOf(z.object({ filename: FilePath, previous_filename: FilePath.nullish() }), 1000).nullish(),
})
export function githubChangedFiles({ status, files }: z.output<typeof GithubComparison>): string[] | null {
  if ((status !== 'ahead' && status !== 'identical') || (files?.length ?? 0) >= MAX_COMPARED_FILES) return null
  return (files ?? []).flatMap(({ filename, previous_filename }) => [filename, previous_filename ?? filename])
}

/** Gitea lists the files of each commit. */
export const GiteaComparison = z.object({
  total_commits: z.int().min(0),
  commits: arrayOf(z.object({ files: arrayOf(z.object({ filename: FilePath }), 5000).nullish() }), 5000).nullish(),
})
export function giteaChangedFiles({ total_commits, commits }: z.output<typeof GiteaComparison>): string[] | null {
  if ((commits?.length ?? 0) < total_commits || commits?.some(({ files }) => files == null)) return null
  return (commits ?? []).flatMap(({ files }) => files!.map(({ filename }) => filename))
}
/** Gitea calls the commit's id `id`, GitHub `sha`. */
const BranchCommit = z.union([z.object({ sha: Sha }), z.object({ id: Sha }).transform(({ id }) => ({ sha: id }))])
export const BranchResponses = arrayOf(z.object({ name: boundedText(255).min(1), commit: BranchCommit }), 1000)

export const CreatedComment = z.object({ id: z.int().min(0) })
export const ListedComments = arrayOf(z.object({ id: z.int().min(0), body: z.string() }), 1000)
