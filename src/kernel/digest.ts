// SHA-256, also fed piece by piece: WebCrypto wants the whole at once, and on Node hands even a short text to another thread. Of Node's
// modules this is the one that Workers run natively too.
import { createHash } from 'node:crypto'

export const sha256 = () => createHash('sha256')
export const sha256Hex = (text: string): string => sha256().update(text).digest('hex')
