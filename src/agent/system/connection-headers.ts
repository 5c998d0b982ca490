// The headers that belong to one connection. Uses nothing else, because images of sites have no packages.

/** They belong to one connection and are never forwarded. */
export const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'upgrade',
  'expect',
  'http2-settings',
])
export const FRAMING_HEADERS = new Set(['content-length', 'transfer-encoding'])
/** `lower`: a name in lower case. */
export const isConnectionHeader = (lower: string): boolean => HOP_BY_HOP.has(lower) || FRAMING_HEADERS.has(lower)
