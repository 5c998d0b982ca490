// Redacts everything that leaves this machine: masks secrets and renames the agent's folders.
import { resolve } from 'node:path'
import type { Report } from '../../protocol/report.schema.ts'
import type { ReportedTraffic } from '../../protocol/traffic.schema.ts'
import type { RevisionWork, Tracing, Work } from '../../protocol/work.schema.ts'
import type { RevisionRef } from '../engine.ts'
import { stripControlCharacters } from '../system/last-lines.ts'
import { createPathRedactor, type PathRedactor } from './redact-paths.ts'
import { SecretMasks } from './secret-masks.ts'

const MAX_MESSAGE_LENGTH = 2000
const MAX_PATH_LENGTH = 500
const UNKNOWN_SECRETS_MESSAGE =
  'The reason is withheld: it may contain secrets of this revision, which this agent cannot decrypt. Redeploy it.'

/** The signature is the only secret part of a token. */
export const signatureOf = (token: string): string => token.slice(token.lastIndexOf('.') + 1)

export class Redaction {
  readonly #masks: SecretMasks
  readonly #pathRedactors: PathRedactor[]
  /** Deployments whose engine has registered the secrets that it generated itself, such as database passwords. */
  readonly #confirmed = new Set<string>()

  constructor(folders: string[], globalValues: string[] = []) {
    this.#pathRedactors = [...new Set(folders)].map(folder => createPathRedactor(resolve(folder)))
    this.#masks = new SecretMasks(globalValues)
  }

  hide = (deployment_id: string, values: string[]) => this.#masks.addValues(deployment_id, values)

  hideToken = (deployment_id: string, token: string) => this.#masks.addShortLived(deployment_id, signatureOf(token))

  learnSecrets(
    work: Work,
    open: (revision: RevisionWork) => {
      secrets: Record<string, string>
      tracing: Tracing | null
      application_key: string | null
    },
  ): void {
    const { deployment_id } = work
    for (const revision of [work.revision, work.serving, work.beside]) {
      if (!revision) continue
      try {
        const { secrets, tracing, application_key } = open(revision)
        this.#masks.addRevision({ deployment_id, revision_id: revision.id }, Object.values(secrets))
        // The value may change without a new revision.
        if (tracing) this.hide(deployment_id, [tracing.key])
        if (application_key) this.hide(deployment_id, [application_key])
      } catch {
        // Its build or start reports the reason. Until it is known, lines of this revision are held back.
      }
    }
  }

  confirmEngineSecrets(deployment_id: string): void {
    this.#confirmed.add(deployment_id)
  }

  forget(deployment_id: string): void {
    this.#masks.forget(deployment_id)
    this.#confirmed.delete(deployment_id)
  }

  /** True if lines of the revision may be sent, false if not yet, null if never. */
  areSecretsKnown(ref: RevisionRef, isResyncComplete: boolean): boolean | null {
    if (this.#masks.hasRevision(ref)) return this.#confirmed.has(ref.deployment_id)
    return isResyncComplete ? null : false
  }

  /** Without its secrets only: lines of a job keep paths, which its next command may use as in a terminal. */
  withoutSecrets(deployment_id: string, text: string, from = 0): string {
    return this.#masks.mask(deployment_id, text, from)
  }

  /** Returns the text after `from`, which was already shown. */
  text(deployment_id: string, text: string, from = 0): string {
    const masked = this.withoutSecrets(deployment_id, text, from)
    return this.#pathRedactors.reduce((result, { redact }) => redact(result), masked)
  }

  /** The length of an unfinished line that can be shown without cutting a secret or a path. */
  settledLength(deployment_id: string, text: string): number {
    const length = this.#masks.settledLength(deployment_id, text)
    return this.#pathRedactors.reduce((least, { settledLength }) => settledLength(text.slice(0, least)), length)
  }

  /** The message is cut after masking: half of a secret would not be recognized. */
  redactReport<R extends Report>(report: R): R {
    const { deployment_id, revision_id, message, health, incidents, traffic } = report
    const redact = (text: string, of = revision_id) =>
      !of || this.#masks.hasRevision({ deployment_id, revision_id: of })
        ? cutMessage(this.text(deployment_id, text))
        : UNKNOWN_SECRETS_MESSAGE
    return {
      ...report,
      ...(message && { message: redact(message) }),
      ...(health?.reason && { health: { ...health, reason: redact(health.reason) } }),
      ...(traffic && { traffic: this.#redactTraffic(deployment_id, traffic, redact) }),
      ...(incidents && {
        incidents: incidents.map(one => ({ ...one, ...(one.message && { message: redact(one.message) }) })),
      }),
    }
  }

  /** Secrets may be in the paths of requests, too. */
  #redactTraffic(
    deployment_id: string,
    traffic: ReportedTraffic,
    redact: (text: string, of: string) => string,
  ): ReportedTraffic {
    const { problem, rollout, revision_id } = traffic
    const failing_requests = rollout?.failing_requests?.map(request => ({
      ...request,
      path: redact(this.#settledPath(deployment_id, request.path), revision_id).slice(0, MAX_PATH_LENGTH),
    }))
    return {
      ...traffic,
      ...(problem && { problem: redact(problem, revision_id) }),
      ...(failing_requests && { rollout: { ...rollout!, failing_requests } }),
    }
  }

  /** One that was cut may end with a part of a secret. */
  #settledPath(deployment_id: string, path: string): string {
    return path.length < MAX_PATH_LENGTH ? path : path.slice(0, this.settledLength(deployment_id, path))
  }
}

/** Keeps the sentence at the beginning and the newest lines at the end. */
export function cutMessage(text: string): string {
  const message = stripControlCharacters(text)
  if (message.length <= MAX_MESSAGE_LENGTH) return message
  return `${message.slice(0, 900)}\n…\n${message.slice(-1000)}`.toWellFormed()
}
