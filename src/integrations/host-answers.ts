// What the two kinds of git host answer, as far as it is read: Gitea speaks much of GitHub's tongue.
import * as z from 'zod'
import type { Commit, Repository } from './githost.ts'

/** Of an account or a repository: it becomes part of addresses. */
export const Name = z.string().regex(/^(?!\.+$)[\w.-]{1,255}$/)
const words = (longest: number) =>
  z.string().transform(text => text.toWellFormed().replaceAll('\0', '').slice(0, longest))

export const ListedRepository = z.object({
  id: z.int().min(0),
  name: Name,
  owner: z.object({ login: Name }),
  default_branch: words(255).nullish(),
})
export const Listed = z.object({ total_count: z.int().min(0), repositories: z.array(ListedRepository).max(1000) })

/** Its address is put together and not read: what the host says of itself is not where it is asked. */
export const repositoryOf = (
  base_url: string,
  { id, name, owner: { login }, default_branch }: z.output<typeof ListedRepository>,
): Repository => ({ id, name, owner: login, url: `${base_url}/${login}/${name}`, default_branch: default_branch ?? '' })

const Sha = z.string().regex(/^[0-9a-f]{40}([0-9a-f]{24})?$/)
export const CommitBody = z.object({
  sha: Sha,
  commit: z.object({ message: words(10_000), author: z.object({ name: words(255) }).nullish() }),
  author: z.object({ login: words(255).nullish() }).nullish(),
})

export const commitOf = ({ sha, commit, author }: z.output<typeof CommitBody>): Commit => ({
  sha,
  author: author?.login ?? commit.author?.name ?? null,
  message: commit.message,
})

export const MadeComment = z.object({ id: z.int().min(0) })
export const ListedComments = z.array(z.object({ id: z.int().min(0), body: z.string() })).max(1000)
