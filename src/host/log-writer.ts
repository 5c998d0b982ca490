// Writes log lines to the output of a process, those of a short while at once.
import { writeSync } from 'node:fs'

/** To write to a pipe takes longer than to make the line. */
const FLUSH_MS = 20
/** A write waits so long for a slow reader before it drops the rest, and retries at this interval. */
const [PATIENCE_MS, RETRY_MS] = [1000, 5]

export type Output = { fd: number; write(text: string): unknown }

export function createLogWriter(output: Output): (line: Record<string, unknown>) => void {
  let waiting = ''
  function flush(): void {
    if (waiting === '') return
    const text = waiting
    waiting = ''
    output.write(text)
  }
  process.on('exit', () => writeToEnd(output.fd, waiting))
  return line => {
    if (waiting === '') setTimeout(flush, FLUSH_MS).unref()
    waiting += `${JSON.stringify(line)}\n`
  }
}

/**
 * Blocks the process until the reader has taken the text, for a second at most. A stream writes only what a pipe takes
 * at once when the process ends.
 */
export function writeToEnd(fd: number, text: string): void {
  const deadline = Date.now() + PATIENCE_MS
  const pause = new Int32Array(new SharedArrayBuffer(4))
  for (let rest = Buffer.from(text); rest.length > 0 && Date.now() < deadline; ) {
    try {
      rest = rest.subarray(writeSync(fd, rest))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return
      Atomics.wait(pause, 0, 0, RETRY_MS)
    }
  }
}
