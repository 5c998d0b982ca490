// Writes log lines to the output of a process, those of a short while at once.

/** To write to a pipe takes longer than to make the line. */
const FLUSH_MS = 20

export function createLogWriter(output: Pick<NodeJS.WriteStream, 'write'>): (line: Record<string, unknown>) => void {
  let waiting = ''
  function flush(): void {
    if (waiting === '') return
    const text = waiting
    waiting = ''
    output.write(text)
  }
  // Node writes to files and pipes at once, also while the process ends.
  process.on('exit', flush)
  return line => {
    if (waiting === '') setTimeout(flush, FLUSH_MS).unref()
    waiting += `${JSON.stringify(line)}\n`
  }
}
