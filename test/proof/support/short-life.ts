// A life of a process that is cut short at some step, in the same process: what it sends from then on never arrives.

class KilledError extends Error {}

/** Counts the steps of one life. At the last one, the request is not sent, or its answer is lost. */
export function makeLife(lastStep: number, losesAnswer: boolean) {
  let steps = 0
  const guard =
    <Input extends unknown[], Answer>(send: (...input: Input) => Promise<Answer>) =>
    async (...input: Input): Promise<Answer> => {
      steps++
      if (steps > lastStep || (steps === lastStep && !losesAnswer)) throw new KilledError()
      const answer = await send(...input)
      if (steps >= lastStep) throw new KilledError()
      return answer
    }
  return { guard, isOver: () => steps >= lastStep }
}
