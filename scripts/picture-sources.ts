// Tells if the README's pictures of the dashboard show the present one: `npm run screenshots` records a digest of what
// they show beside them, and a release takes them again if the digest has changed.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const DIGEST_FILE = 'docs/images/dashboard.sha256'
/** The list, the page of a deployment, and their frame. */
const SOURCES = [
  'src/dashboard/layout',
  'src/dashboard/parts',
  'src/dashboard/styles',
  'src/dashboard/screens/menu.ts',
  'src/dashboard/screens/resource-list.tsx',
  'src/dashboard/screens/deployments/list.tsx',
  'src/dashboard/screens/deployments/list.module.css',
  'src/dashboard/screens/deployments/frame.tsx',
  'src/dashboard/screens/deployments/frame.module.css',
  'src/dashboard/screens/deployments/deployment.tsx',
  'src/dashboard/screens/deployments/deployment.module.css',
]

function hashSources(root: string): string {
  const hash = createHash('sha256')
  for (const source of SOURCES) {
    const isFolder = statSync(join(root, source)).isDirectory()
    const files = isFolder
      ? readdirSync(join(root, source))
          .sort()
          .map(name => join(source, name))
      : [source]
    for (const file of files) hash.update(`${file}\0`).update(readFileSync(join(root, file)))
  }
  return hash.digest('hex')
}

export const recordPictures = (root: string): void => writeFileSync(join(root, DIGEST_FILE), `${hashSources(root)}\n`)

/** True also where there are no pictures. */
export const arePicturesCurrent = (root: string): boolean =>
  !existsSync(join(root, DIGEST_FILE)) || readFileSync(join(root, DIGEST_FILE), 'utf8').trim() === hashSources(root)
