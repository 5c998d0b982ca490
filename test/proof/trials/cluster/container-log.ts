// The log of a container as a kubelet serves it: lines with their times, followed until the container has ended.
import { EventEmitter } from 'node:events'
import type { ServerResponse } from 'node:http'
import { StringDecoder } from 'node:string_decoder'

export class ContainerLog {
  readonly #lines: { at: number; text: string }[] = []
  readonly #decoder = new StringDecoder('utf8')
  readonly #changes = new EventEmitter<{ line: [] }>().setMaxListeners(0)
  #rest = ''
  #isOver = false

  write(data: Buffer): void {
    const lines = (this.#rest + this.#decoder.write(data)).split('\n')
    this.#rest = lines.pop()!
    this.#add(lines)
  }
  end(): void {
    this.#isOver = true
    this.#add(this.#rest ? [this.#rest] : [])
  }
  #add(lines: string[]): void {
    for (const text of lines) this.#lines.push({ at: Date.now(), text })
    this.#changes.emit('line')
  }

  /** The last lines, without their times. */
  tail(count: number): string[] {
    return this.#lines.slice(-count).map(({ text }) => text)
  }

  serve(query: URLSearchParams, response: ServerResponse): void {
    const since = Date.parse(query.get('sinceTime') ?? '') || 0
    const isTimed = query.get('timestamps') === 'true'
    let next = query.has('tailLines') ? Math.max(0, this.#lines.length - Number(query.get('tailLines'))) : 0
    const send = () => {
      for (const { at, text } of this.#lines.slice(next))
        if (at >= since) response.write(`${isTimed ? `${new Date(at).toISOString()} ` : ''}${text}\n`)
      next = this.#lines.length
      if (this.#isOver || query.get('follow') !== 'true') response.end()
    }
    response.writeHead(200, { 'Content-Type': 'text/plain' })
    response.flushHeaders()
    this.#changes.on('line', send)
    response.once('close', () => this.#changes.off('line', send))
    send()
  }
}
