// The parts that the webhooks of all git hosts are read into, and the fields that they share (pure).
import * as z from 'zod'
import { boundedText } from '../../protocol/wire.ts'

export type Commit = { sha: string; message: string | null; author: string | null }
export type CommonMembers = {
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
  /** The files that the push changed. Absent or null where the delivery does not list all of them. */
  files?: string[] | null
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
export const MAX_URL = 2048

// Lengths are checked before patterns: the operator of a git host controls these payloads.
/** Cuts the text, and removes what Postgres cannot store. */
const cleanText = (maxLength: number) => (text: string) => text.slice(0, maxLength).replaceAll('\0', '').toWellFormed()
export const Name = z.string().transform(cleanText(MAX_NAME))
const Message = z.string().transform(cleanText(MAX_MESSAGE))
export const Sha = boundedText(64).regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/)
/** Hosts write "no commit" as zeros. */
export const NullableSha = Sha.transform(sha => (/^0+$/.test(sha) ? null : sha)).nullish()
export const Ref = boundedText(MAX_NAME).min(1)
export const ShortText = boundedText(MAX_NAME)

export const HeadCommit = z.object({
  id: Sha,
  message: Message.nullish(),
  author: z.object({ name: Name.nullish(), username: Name.nullish() }).nullish(),
})
