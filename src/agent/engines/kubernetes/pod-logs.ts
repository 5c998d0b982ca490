// Follows the logs of applications in a cluster, line by line, for as long as their containers run.
import * as http from 'node:http'
import * as https from 'node:https'
import type { KubeConfig, V1Pod } from '@kubernetes/client-node'
import type { LogLevel, LogSource } from '../../engine.ts'
import { levelOf } from '../../system/line-level.ts'
import { LineSplitter } from '../../system/lines.ts'
import { WEB } from '../process-types.ts'
import { COMPONENT_LABEL, DEPLOYMENT_LABEL, REVISION_LABEL } from './names.ts'
import { APP_CONTAINER } from './pod-template.ts'

type WriteLogLine = (of: LogSource, message: string, level: LogLevel) => void
type LogStream = {
  write: (message: string, level: LogLevel) => void
  namespace: string
  name: string
  /** The time of the last line, as its node wrote it; before the first line, when to begin. */
  since: string
  hasWritten: boolean
  request: http.ClientRequest | null
  isGone: boolean
}

/** Longer lines are cut. */
const MAX_LINE_LENGTH = 16 * 1024
const RETRY_MS = 2000
/** TCP keep-alive detects a vanished node: an application may be silent for days. */
const KEEP_ALIVE_MS = 15_000

export class PodLogs {
  readonly #config: KubeConfig
  readonly #writeLog: WriteLogLine
  readonly #streams = new Map<string, LogStream>()
  readonly #timers = new Set<NodeJS.Timeout>()

  constructor(config: KubeConfig, writeLog: WriteLogLine) {
    this.#config = config
    this.#writeLog = writeLog
  }

  /** `since` is when this agent started: earlier lines were shipped by the previous one. */
  handlePod(pod: V1Pod, gone: boolean, since = new Date()): void {
    const { uid, name, namespace, labels } = pod.metadata!
    const stream = this.#streams.get(uid!)
    if (gone) {
      if (stream) stream.isGone = true
      if (stream?.request === null) this.#streams.delete(uid!)
      return
    }
    const [deployment_id, revision_id] = [labels?.[DEPLOYMENT_LABEL], labels?.[REVISION_LABEL]]
    // A container that ends at once may never be observed as running.
    const hasRun = pod.status?.containerStatuses?.some(
      ({ name, state, lastState }) =>
        name === APP_CONTAINER && (state?.running ?? state?.terminated ?? lastState?.terminated),
    )
    if (!deployment_id || !revision_id || !hasRun || stream) return
    const createdAt = new Date(pod.metadata?.creationTimestamp ?? since)
    const from = createdAt > since ? createdAt : since
    const of = { deployment_id, revision_id, process: labels?.[COMPONENT_LABEL] ?? WEB }
    this.#streams.set(uid!, {
      write: (message, level) => this.#writeLog(of, message, level),
      namespace: namespace!,
      name: name!,
      since: from.toISOString(),
      hasWritten: false,
      request: null,
      isGone: false,
    })
    void this.#follow(uid!)
  }

  /** Follows the pod of a command that runs once, from the line after `read`, the time of one that was read before. */
  followRun({ metadata }: V1Pod, read: string | undefined, write: LogStream['write']): void {
    const { uid, name, namespace } = metadata!
    if (this.#streams.has(uid!)) return
    const since = read ?? new Date(metadata!.creationTimestamp ?? 0).toISOString()
    const position = { since, hasWritten: read !== undefined }
    this.#streams.set(uid!, { write, namespace: namespace!, name: name!, ...position, request: null, isGone: false })
    void this.#follow(uid!)
  }

  /** The time of the last line that was read. */
  readUntil({ metadata }: V1Pod): string | undefined {
    const stream = this.#streams.get(metadata!.uid!)
    return stream?.hasWritten ? stream.since : undefined
  }

  /** Reads the rest of the log of a pod that has ended. */
  async endRun({ metadata }: V1Pod): Promise<void> {
    const uid = metadata!.uid!
    const stream = this.#streams.get(uid)
    if (!stream) return
    this.#streams.delete(uid)
    stream.isGone = true
    stream.request?.destroy()
    await this.#request(stream, false).catch(() => {})
  }

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer)
    for (const stream of this.#streams.values()) {
      stream.isGone = true
      stream.request?.destroy()
    }
    this.#streams.clear()
  }

  /** Does not use the client's log stream, which does not report a broken connection. */
  async #follow(uid: string): Promise<void> {
    const stream = this.#streams.get(uid)
    if (!stream) return
    await this.#request(stream, true).catch(() => {})
    stream.request = null
    if (stream.isGone || !this.#streams.has(uid)) return void this.#streams.delete(uid)
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      void this.#follow(uid)
    }, RETRY_MS).unref()
    this.#timers.add(timer)
  }

  /** Returns once the connection is closed. */
  async #request(stream: LogStream, follow: boolean): Promise<void> {
    const url = new URL(
      `${this.#config.getCurrentCluster()!.server}/api/v1/namespaces/${stream.namespace}/pods/${stream.name}/log`,
    )
    const query = { container: APP_CONTAINER, follow: String(follow), timestamps: 'true', sinceTime: stream.since }
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    const options: https.RequestOptions = {}
    await this.#config.applyToHTTPSOptions(options)
    if (follow && stream.isGone) return
    await new Promise<void>(resolve => {
      const request = (url.protocol === 'https:' ? https : http).request(
        url,
        options as https.RequestOptions,
        response => {
          // Bounds the memory for a line that never ends.
          const lines = new LineSplitter(2 * MAX_LINE_LENGTH)
          response.on('data', chunk => {
            if (response.statusCode === 200) for (const line of lines.push(chunk)) this.#writeLine(stream, line)
          })
          // Skips an aborted answer: the next request repeats the incomplete line.
          response.once('end', () => {
            for (const line of lines.end()) this.#writeLine(stream, line)
          })
          response.on('error', () => {})
        },
      )
      stream.request = request
      // The request and its answer may both report an error, but `close` comes once.
      request.on('error', () => {}).once('close', resolve)
      request.setSocketKeepAlive(true, KEEP_ALIVE_MS)
      request.end()
    })
  }

  #writeLine(stream: LogStream, line: string): void {
    // A line without a time is a message of the node, for example that the container is gone.
    const [, time, message] = /^(\d{4}-\d\d-\d\dT\S+) (.*)$/s.exec(line) ?? []
    // After a reconnect, the node repeats the whole second of the last line.
    if (!time || (stream.hasWritten && sortableTime(time) <= sortableTime(stream.since))) return
    stream.since = time
    stream.hasWritten = true
    // The API has both streams in one: a line that says no level is INFO.
    stream.write(message!.slice(0, MAX_LINE_LENGTH), levelOf(message!, false))
  }
}

/** Nodes may write local time with an offset, and fractions of any length. */
const sortableTime = (time: string) => `${Math.floor(Date.parse(time) / 1000)}${/\.\d+/.exec(time)?.[0] ?? ''}`
