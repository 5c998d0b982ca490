// Schemas of the responses of GitLab.
import * as z from 'zod'
import { arrayOf, boundedText } from '../../protocol/wire.ts'
import type { Commit, HostedPull, HostedRepository, Repository } from './githost.ts'
import { MAX_PULL_NUMBER, PathName, Sha, truncatedText } from './host-responses.ts'

/** A group, or groups within groups. */
const GroupPath = boundedText(1000).refine(path => path.split('/').every(name => PathName.safeParse(name).success))

export const ListedProject = z.object({
  id: z.int().min(0),
  path: PathName,
  namespace: z.object({ full_path: GroupPath }),
  default_branch: truncatedText(255).nullish(),
  archived: z.boolean().nullish(),
  empty_repo: z.boolean().nullish(),
})
export const ListedProjects = arrayOf(ListedProject, 1000)
type Project = z.output<typeof ListedProject>

/** Builds the URL from `base_url`: a URL in the response could point to another host. */
const urlOf = (base_url: string, { path, namespace }: Project) => `${base_url}/${namespace.full_path}/${path}`

export const projectToRepository = (base_url: string, project: Project): Repository => ({
  id: project.id,
  name: project.path,
  owner: project.namespace.full_path,
  url: urlOf(base_url, project),
  default_branch: project.default_branch ?? '',
  archived: project.archived ?? false,
  empty: project.empty_repo ?? false,
})

export const projectToHosted = (base_url: string, project: Project): HostedRepository => ({
  id: String(project.id),
  url: urlOf(base_url, project),
})

export const GitlabCommit = z.object({
  id: Sha,
  message: truncatedText(10_000).nullish(),
  author_name: truncatedText(255).nullish(),
})
export const toGitlabCommit = ({ id, message, author_name }: z.output<typeof GitlabCommit>): Commit => ({
  sha: id,
  author: author_name ?? null,
  message: message ?? null,
})

export const MergeRequest = z.object({
  iid: z.int().positive().max(MAX_PULL_NUMBER),
  state: boundedText(20),
  updated_at: boundedText(64).pipe(z.iso.datetime({ offset: true })),
  source_branch: boundedText(255).min(1),
  /** Null while the branch has no commit. */
  sha: Sha.nullish(),
  /** Null where the fork was deleted. */
  source_project_id: z.number().nullish(),
  target_project_id: z.number(),
})
export const MergeRequests = arrayOf(MergeRequest, 1000)

export const mergeRequestToPull = (request: z.output<typeof MergeRequest>): HostedPull | null =>
  request.sha == null
    ? null
    : {
        number: request.iid,
        is_open: request.state === 'opened',
        branch: request.source_branch,
        head_sha: request.sha,
        fork: request.source_project_id !== request.target_project_id,
        at: new Date(request.updated_at).toISOString(),
      }

const FilePath = boundedText(4096)
/** GitLab cuts longer lists. */
const MAX_DIFFS = 1000
export const Comparison = z.object({
  compare_timeout: z.boolean().nullish(),
  diffs: arrayOf(z.object({ old_path: FilePath, new_path: FilePath }), 10_000),
})
export const gitlabChangedFiles = ({ compare_timeout, diffs }: z.output<typeof Comparison>): string[] | null =>
  compare_timeout || diffs.length >= MAX_DIFFS ? null : diffs.flatMap(({ old_path, new_path }) => [old_path, new_path])

export const GitlabAccount = z.object({ id: z.int().min(0), username: PathName })
