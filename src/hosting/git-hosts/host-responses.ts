// Schemas of the responses of git hosts: GitHub and Gitea share most of them.
import * as z from 'zod'
import { arrayOf, boundedText } from '../../protocol/wire.ts'
import type { Commit, Repository } from './githost.ts'

export const PathName = boundedText(255).regex(/^(?!\.+$)[\w.-]+$/)
const truncatedText = (maxLength: number) =>
  z.string().transform(text => text.slice(0, maxLength).replaceAll('\0', '').toWellFormed())

export const ListedRepository = z.object({
  id: z.int().min(0),
  name: PathName,
  owner: z.object({ login: PathName }),
  default_branch: truncatedText(255).nullish(),
})
export const RepositoryListing = z.object({
  total_count: z.int().min(0),
  repositories: arrayOf(ListedRepository, 1000),
})

/** Builds the URL from `base_url`: a URL in the response could point to another host. */
export const toRepository = (
  base_url: string,
  { id, name, owner: { login }, default_branch }: z.output<typeof ListedRepository>,
): Repository => ({ id, name, owner: login, url: `${base_url}/${login}/${name}`, default_branch: default_branch ?? '' })

const Sha = boundedText(64).regex(/^[0-9a-f]{40}([0-9a-f]{24})?$/)
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

export const CreatedComment = z.object({ id: z.int().min(0) })
export const ListedComments = arrayOf(z.object({ id: z.int().min(0), body: z.string() }), 1000)
