// Schemas of GitLab's webhooks, and their readers (pure).
import * as z from 'zod'
import { arrayOf, boundedText } from '../../protocol/wire.ts'
import { MAX_PULL_NUMBER } from '../git-hosts/host-responses.ts'
import {
  type Commit,
  HeadCommit,
  MAX_URL,
  Name,
  NullableSha,
  type PullRequest,
  type Push,
  Ref,
  Sha,
} from './payload-parts.ts'

/** GitLab sends the newest 20. */
const MAX_COMMITS = 100
const Project = z.object({ id: z.number(), web_url: boundedText(MAX_URL), git_http_url: boundedText(MAX_URL) })
const readProject = ({ id, web_url, git_http_url }: z.output<typeof Project>) => ({
  repo_urls: [...new Set([web_url, git_http_url])],
  repo_id: String(id),
})

export const GitlabPush = z.object({
  project: Project,
  ref: Ref,
  before: NullableSha,
  after: NullableSha,
  user_username: Name.nullish(),
  user_name: Name.nullish(),
  commits: arrayOf(HeadCommit, MAX_COMMITS).nullish(),
})

const readCommit = ({ id, message, author }: z.output<typeof HeadCommit>): Commit => ({
  sha: id,
  message: message ?? null,
  author: author?.name ?? null,
})

/** A deleted branch is a push to no commit. */
export function readGitlabPush(payload: z.output<typeof GitlabPush>): Push {
  const { ref, before = null, after = null, commits } = payload
  const head = commits?.find(commit => commit.id === after)
  return {
    kind: 'push',
    installation: null,
    sender: payload.user_username ?? payload.user_name ?? null,
    ...readProject(payload.project),
    ref,
    before,
    after,
    created: before === null && after !== null,
    deleted: after === null,
    forced: false,
    commit: head ? readCommit(head) : null,
  }
}

/** Some releases write `2026-01-02 03:04:05 UTC`. */
const Time = boundedText(64)
  .transform(text => text.replace(' UTC', 'Z').replace(' ', 'T'))
  .pipe(z.iso.datetime({ offset: true }))

export const GitlabMergeRequest = z.object({
  project: Project,
  user: z.object({ username: Name }).nullish(),
  object_attributes: z.object({
    iid: z.int().positive().max(MAX_PULL_NUMBER),
    action: boundedText(40).nullish(),
    /** The head before, where an update moved it. */
    oldrev: Sha.nullish(),
    source_branch: Ref,
    source_project_id: z.number().nullish(),
    target_project_id: z.number(),
    last_commit: z.object({ id: Sha }).nullish(),
    updated_at: Time,
  }),
})

const ACTIONS: Record<string, PullRequest['action']> = {
  open: 'opened',
  reopen: 'reopened',
  update: 'synchronize',
  close: 'closed',
  merge: 'closed',
}

export function readGitlabMergeRequest(payload: z.output<typeof GitlabMergeRequest>): PullRequest | null {
  const { iid, action: name, oldrev, last_commit, ...attributes } = payload.object_attributes
  const action = name != null && Object.hasOwn(ACTIONS, name) ? ACTIONS[name]! : null
  // Other updates are of its title, its labels and the like.
  if (action === null || last_commit == null || (action === 'synchronize' && oldrev == null)) return null
  return {
    kind: 'pull_request',
    installation: null,
    sender: payload.user?.username ?? null,
    ...readProject(payload.project),
    action,
    number: iid,
    branch: attributes.source_branch,
    head_sha: last_commit.id,
    // A deleted fork has no project.
    fork: attributes.source_project_id !== attributes.target_project_id,
    at: new Date(attributes.updated_at).toISOString(),
  }
}
