// TOML files of a source. A file that is not valid is one that says nothing here: its own tool names the fault.
import { parse, type TomlTable } from 'smol-toml'
import type { Folder } from './source-files.ts'

export function readToml(folder: Folder, name: string): TomlTable | null {
  const text = folder.read(name)
  if (text === null) return null
  try {
    return parse(text)
  } catch {
    return null
  }
}
