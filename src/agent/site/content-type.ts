// The content type of a file by its name, and whether compression makes such a file smaller.
import { lookup } from 'mrmime'

/** The package leaves out types that begin with `vnd.` or `x-`. */
const OTHERS: Record<string, string> = {
  ico: 'image/x-icon',
  cjs: 'text/javascript',
  webmanifest: 'application/manifest+json',
}
const TEXT = /^(text\/.*|application\/(javascript|json|xml|wasm)|.*\+(json|xml))$/

export function contentTypeOf(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1)
  // A name such as `html` is no ending.
  const ending = name.includes('.') ? name.slice(name.lastIndexOf('.') + 1).toLowerCase() : ''
  const type = (Object.hasOwn(OTHERS, ending) ? OTHERS[ending] : ending && lookup(ending)) || 'application/octet-stream'
  return type.startsWith('text/') ? `${type}; charset=utf-8` : type
}

export const isCompressible = (type: string): boolean => TEXT.test(type)
