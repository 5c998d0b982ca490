// What applications in a cluster write, line by line, for as long as their containers run.
import * as http from 'node:http'
import * as https from 'node:https'
import type { KubeConfig, V1Pod } from '@kubernetes/client-node'
import { LineSplitter } from '../../system/lines.ts'
import type { LogLevel, RevisionRef } from '../engine.ts'
import { DEPLOYMENT_LABEL, REVISION_LABEL } from './names.ts'
import { APP_CONTAINER } from './pod-template.ts'

type WriteLogLine = (of: RevisionRef, message: string, level: LogLevel) => void
type LogStream = {
  of: RevisionRef
  namespace: string
  name: string
  /** The time of the last line that was told, as its node writes it; before, when to begin. */
  since: string
  hasWritten: boolean
  request: http.ClientRequest | null
  isGone: boolean
}

/** Longer lines are cut: nobody reads them, and everybody pays for them. */
const MAX_LINE_LENGTH = 16 * 1024
const RETRY_MS = 2000
/** An application may be silent for days: a node that is gone is noticed by asking its connection. */
const KEEP_ALIVE_MS = 15_000

export class PodLogs {
  readonly #config: KubeConfig
  readonly #writeLog: WriteLogLine
  readonly #streams = new Map<string, LogStream>()
  readonly #timers = new Set<NodeJS.Timeout>()

  constructor(config: KubeConfig, said: WriteLogLine) {
    this.#config = config
    this.#writeLog = said
  }

  /** Of an agent that has just started it is told from now on: the lines before were its predecessor's to tell. */
  handlePod(pod: V1Pod, gone: boolean, since = new Date()): void {
    const { uid, name, namespace, labels } = pod.metadata!
    const tap = this.#streams.get(uid!)
    if (gone) {
      if (tap) tap.isGone = true
      if (tap?.request === null) this.#streams.delete(uid!)
      return
    }
    const [deployment_id, revision_id] = [labels?.[DEPLOYMENT_LABEL], labels?.[REVISION_LABEL]]
    // One that ends at once may never be seen to run.
    const ran = pod.status?.containerStatuses?.some(
      ({ name, state, lastState }) =>
        name === APP_CONTAINER && (state?.running ?? state?.terminated ?? lastState?.terminated),
    )
    if (!deployment_id || !revision_id || !ran || tap) return
    const fresh = new Date(pod.metadata?.creationTimestamp ?? since)
    const from = fresh > since ? fresh : since
    const of = { deployment_id, revision_id }
    this.#streams.set(uid!, {
      of,
      namespace: namespace!,
      name: name!,
      since: from.toISOString(),
      hasWritten: false,
      request: null,
      isGone: false,
    })
    void this.#follow(uid!)
  }

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer)
    for (const tap of this.#streams.values()) {
      tap.isGone = true
      tap.request?.destroy()
    }
    this.#streams.clear()
  }

  /** By a request of our own: the client's stream has nobody to tell of a connection that breaks. */
  async #follow(uid: string): Promise<void> {
    const tap = this.#streams.get(uid)
    if (!tap) return
    const url = new URL(
      `${this.#config.getCurrentCluster()!.server}/api/v1/namespaces/${tap.namespace}/pods/${tap.name}/log`,
    )
    const query = { container: APP_CONTAINER, follow: 'true', timestamps: 'true', sinceTime: tap.since }
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    const again = () => {
      tap.request = null
      if (tap.isGone || !this.#streams.has(uid)) return void this.#streams.delete(uid)
      const timer = setTimeout(() => {
        this.#timers.delete(timer)
        void this.#follow(uid)
      }, RETRY_MS).unref()
      this.#timers.add(timer)
    }
    try {
      const options: https.RequestOptions = {}
      await this.#config.applyToHTTPSOptions(options)
      if (tap.isGone) return
      const request = (url.protocol === 'https:' ? https : http).request(
        url,
        options as https.RequestOptions,
        answer => {
          // One that never ends its line costs no more than what is told of it.
          const lines = new LineSplitter(2 * MAX_LINE_LENGTH)
          answer.on('data', chunk => {
            if (answer.statusCode === 200) for (const line of lines.push(chunk)) this.#writeLine(tap, line)
          })
          // Of an answer that was cut, the line will be told whole.
          answer.once('end', () => {
            for (const line of lines.end()) this.#writeLine(tap, line)
          })
          answer.on('error', () => {})
        },
      )
      tap.request = request
      // An error may be told by the request, by its answer or by both: it closes once.
      request.on('error', () => {}).once('close', again)
      request.setSocketKeepAlive(true, KEEP_ALIVE_MS)
      request.end()
    } catch {
      again()
    }
  }

  #writeLine(tap: LogStream, line: string): void {
    // What has no time is a node's own trouble, like a container that is gone already.
    const [, time, message] = /^(\d{4}-\d\d-\d\dT\S+) (.*)$/s.exec(line) ?? []
    // Asked again, a node begins with the whole second of the last line.
    if (!time || (tap.hasWritten && sortableTime(time) <= sortableTime(tap.since))) return
    tap.since = time
    tap.hasWritten = true
    this.#writeLog(tap.of, message!.slice(0, MAX_LINE_LENGTH), 'INFO')
  }
}

/** A node may write its own time of day, which goes back in autumn; and fractions of a second with as many digits as they need. */
const sortableTime = (time: string) => `${Math.floor(Date.parse(time) / 1000)}${/\.\d+/.exec(time)?.[0] ?? ''}`
