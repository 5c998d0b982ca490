// Files that are served as they are.
import type { Proposal } from '../build-plan.ts'
import { type Folder, normalize } from '../source-files.ts'

const FOLDERS = ['', 'public', 'dist', 'build', '_site', 'site', 'www', 'docs']

export function proposeStatic(app: Folder): Proposal | null {
  const root = /^root:[ \t]*["']?([^"'\s]+)/m.exec(app.read('Staticfile') ?? '')?.[1]
  if (root !== undefined)
    return { kind: 'static', site: siteAt(app, normalize(root)), certain: ['Staticfile names the folder.'] }
  const folder = FOLDERS.find(name => app.has(name === '' ? 'index.html' : `${name}/index.html`))
  if (folder === undefined) return null
  const page = folder === '' ? 'index.html' : `${folder}/index.html`
  return { kind: 'static', site: siteAt(app, folder), isUncertain: folder !== '', certain: [`There is ${page}.`] }
}

/** One page that answers every path has `200.html`, as makers of static sites call it. */
const siteAt = (app: Folder, folder: string) => ({
  folder,
  fallback: app.has(normalize(`${folder}/200.html`)) ? '200.html' : null,
})
