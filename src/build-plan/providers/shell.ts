// A folder with a script that starts it.
import type { Proposal } from '../build-plan.ts'
import type { Folder } from '../source-files.ts'

export function proposeShell(app: Folder): Proposal | null {
  if (!app.has('start.sh')) return null
  const interpreter = /^#! ?(?:\/usr\/bin\/env )?\S*\bbash\b/.test(app.read('start.sh') ?? '') ? 'bash' : 'sh'
  return { start: `${interpreter} start.sh`, certain: ['start.sh starts it.'] }
}
