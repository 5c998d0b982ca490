// The network of a client's address, which stands for the client (pure).

/** A client with one IPv6 address usually has its whole /64. */
export function toNetworkPrefix(address: string, groupCount = 4): string {
  if (!address.includes(':')) return address
  const [head = '', tail] = address.split('::')
  const groups = (text = '') => text.split(':').filter(group => group !== '')
  const [left, right] = [groups(head), groups(tail)]
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length)
  const all = [...left, ...Array<string>(zeros).fill('0'), ...right]
  return `${all
    .slice(0, groupCount)
    .map(group => Number.parseInt(group, 16).toString(16))
    .join(':')}::/${groupCount * 16}`
}
