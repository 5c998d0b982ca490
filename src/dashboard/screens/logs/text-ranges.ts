// Finds where a text is within elements. It may lie across several nodes, which have the colors of a line.
export function findRanges(elements: Iterable<Element>, text: string): StaticRange[] {
  const ranges: StaticRange[] = []
  for (const element of elements) addRanges(element, text.toLowerCase(), ranges)
  return ranges
}

function addRanges(element: Element, wanted: string, ranges: StaticRange[]): void {
  const nodes: Text[] = []
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) nodes.push(walker.currentNode as Text)
  const whole = nodes.map(({ data }) => data).join('')
  const lower = whole.toLowerCase()
  // Some letters have lower ones of another length, and so other places.
  if (lower.length !== whole.length) return
  const locate = (place: number): [node: Text, offset: number] => {
    let rest = place
    for (const node of nodes) {
      if (rest <= node.length) return [node, rest]
      rest -= node.length
    }
    return [nodes.at(-1)!, nodes.at(-1)!.length]
  }
  for (let at = lower.indexOf(wanted); at !== -1; at = lower.indexOf(wanted, at + wanted.length)) {
    const [startContainer, startOffset] = locate(at)
    const [endContainer, endOffset] = locate(at + wanted.length)
    ranges.push(new StaticRange({ startContainer, startOffset, endContainer, endOffset }))
  }
}
