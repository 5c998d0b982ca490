// Keeps a log at its end while a person follows it, and in place while older lines are added above.
import type { RefObject } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'

const AT_END = 12

type Options = {
  /** The scrolling element. */
  frame: RefObject<HTMLElement>
  content: RefObject<HTMLElement>
  isFollowing: boolean
  /** A person has scrolled up, or back to the end. */
  onFollow: (follow: boolean) => void
  /** Changes when lines are added above. */
  firstLine: number | undefined
}
export function useFollowScroll({ frame, content, isFollowing, onFollow, firstLine }: Options): void {
  const following = useRef(isFollowing)
  following.current = isFollowing
  const top = useRef(0)
  /** The first row in view, and where it was. */
  const anchor = useRef<{ row: Element; top: number } | undefined>(undefined)

  const toEnd = () => {
    const element = frame.current!
    element.scrollTop = element.scrollHeight
    top.current = element.scrollTop
  }
  useLayoutEffect(() => {
    if (isFollowing) toEnd()
  }, [isFollowing])

  // Rows above have been added since the last time that something was scrolled.
  useLayoutEffect(() => {
    const { row, top: before } = anchor.current ?? {}
    if (isFollowing || !row?.isConnected) return
    const moved = row.getBoundingClientRect().top - before!
    if (moved !== 0) frame.current!.scrollTop += moved
    top.current = frame.current!.scrollTop
  }, [firstLine])

  useLayoutEffect(() => {
    if (!isFollowing) anchor.current = findAnchor(frame.current!)
  })

  useEffect(() => {
    const element = frame.current!
    // The observer below may run before the next render, and would undo the person's scroll.
    const setFollowing = (follow: boolean) => {
      following.current = follow
      onFollow(follow)
    }
    const onScroll = () => {
      const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < AT_END
      if (isAtEnd && !following.current) setFollowing(true)
      else if (!isAtEnd && following.current && element.scrollTop < top.current - 1) setFollowing(false)
      top.current = element.scrollTop
      anchor.current = findAnchor(element)
    }
    const observer = new ResizeObserver(() => following.current && toEnd())
    observer.observe(content.current!)
    observer.observe(element)
    element.addEventListener('scroll', onScroll, { passive: true })
    return () => {
      observer.disconnect()
      element.removeEventListener('scroll', onScroll)
    }
  }, [])
}

/** Dividers between rows come and go with the rows. */
function findAnchor(frame: HTMLElement): { row: Element; top: number } | undefined {
  const { left, top, width } = frame.getBoundingClientRect()
  for (const below of [8, 32, 56, 80]) {
    const row = document.elementFromPoint(left + width / 2, top + below)?.closest('[id^="line-"]')
    if (row) return { row, top: row.getBoundingClientRect().top }
  }
  return undefined
}
