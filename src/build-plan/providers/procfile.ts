// Procfile: a line for each kind of process, of which `web` is the one that is started.
import type { Folder } from '../source-files.ts'

const LINE = /^([A-Za-z0-9_-]+):[ \t]*(\S.*)$/

export function readProcfile(app: Folder): { web: string | null; warnings: string[] } {
  const lines = (app.read('Procfile') ?? '').split(/\r?\n/).flatMap(line => {
    const [, name, command] = LINE.exec(line.trimEnd()) ?? []
    return name !== undefined && command !== undefined ? [{ name, command }] : []
  })
  const others = lines.filter(({ name }) => name !== 'web').map(({ name }) => `\`${name}\``)
  return {
    web: lines.find(({ name }) => name === 'web')?.command ?? null,
    warnings: others.length === 0 ? [] : [`Of the Procfile, only \`web\` is started, and not ${others.join(', ')}.`],
  }
}
