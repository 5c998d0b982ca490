// The sources of the control plane and its programs, for rules of the code. The pages of the dashboard have their own.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'

export const SRC = join(import.meta.dirname, '../../src')

const isPage = (path: string) => path.startsWith('dashboard/') && !path.startsWith('dashboard/served/')

/** Paths from `src`, sorted. */
export const sourceFiles = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter(path => path.endsWith('.ts') && !isPage(path))
  .sort()
