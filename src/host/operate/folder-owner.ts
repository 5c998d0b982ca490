// Keeps the owner of a folder that root fills for a program of another user, such as the control plane.
import type { Stats } from 'node:fs'
import { chown, lchown, mkdir, opendir, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

/** Everything in the folder then has the owner of the folder. One that does not exist gets that of the folder above. */
export async function fillAsOwner(folder: string, fill: () => Promise<void>): Promise<void> {
  if (process.getuid?.() !== 0) return await fill()
  const { uid, gid } = await statNearest(resolve(folder))
  await mkdir(folder, { recursive: true, mode: 0o700 })
  // Comes first: a killed run would leave a folder of root, which the next run would keep.
  await chown(folder, uid, gid)
  try {
    await fill()
  } finally {
    for await (const { parentPath, name } of await opendir(folder, { recursive: true }))
      await lchown(`${parentPath}/${name}`, uid, gid)
  }
}

const statNearest = (path: string): Promise<Stats> =>
  stat(path).catch(error => {
    if (error.code !== 'ENOENT') throw error
    return statNearest(dirname(path))
  })
