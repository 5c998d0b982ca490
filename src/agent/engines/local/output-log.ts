// Logs what a replica writes: whole lines, and the settled part of an unfinished line once it has stayed for a while.
import type { LogLevel } from '../../engine.ts'
import { levelOf } from '../../system/line-level.ts'
import type { OutputLine, Replica } from './replica.ts'

/** The logged part of the unfinished line of a stream, and the time since when there was no more of it to log. */
type UnfinishedLine = { shown: string; at: number }
export type OutputEvents = {
  log: (message: string, level: LogLevel, shownLength?: number) => void
  settledLength: (text: string) => number
}

export class OutputLog {
  readonly #output: UnfinishedLine = { shown: '', at: 0 }
  readonly #errors: UnfinishedLine = { shown: '', at: 0 }

  read(replica: Replica | undefined, events: OutputEvents, now: number, patience: number): void {
    if (replica) this.log(replica.readLines(), events)
    for (const isError of [false, true]) this.#logUnfinished(replica, isError, events, now, patience)
  }

  log(lines: OutputLine[], events: OutputEvents): void {
    for (const { text, level, isError } of lines) {
      const stream = isError ? this.#errors : this.#output
      // The rest of an unfinished line is lost if the application writes too much.
      const shownLength = text.startsWith(stream.shown) ? stream.shown.length : 0
      stream.shown = ''
      if (shownLength === 0 || text.length > shownLength) events.log(text, level, shownLength)
    }
  }

  #logUnfinished(
    replica: Replica | undefined,
    isError: boolean,
    events: OutputEvents,
    now: number,
    patience: number,
  ): void {
    const stream = isError ? this.#errors : this.#output
    const line = replica?.unfinishedLine?.(isError) ?? ''
    if (line.length <= stream.shown.length) stream.at = now
    if (now - stream.at < patience) return
    stream.at = now
    const settled = line.slice(0, events.settledLength(line)).replace(/\r$/, '')
    if (settled.length <= stream.shown.length) return
    events.log(settled, levelOf(settled, isError), stream.shown.length)
    stream.shown = settled
  }
}
