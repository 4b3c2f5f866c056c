// Compares what a reader predicts with what is right, as show/kinds.py does.
{
  const { absolute, evaluate, parsed, quoted, listing, shown, written } = window.tcemu;
  const bare = (text) => text.replace(/^≈ /, "");
  const finite = (number) => typeof number === "bigint" || Number.isFinite(number);
  const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

  // 0 to 3, 8
  function ranges(numbers) {
    const runs = [];
    for (const each of numbers) {
      if (runs.length && runs.at(-1)[1] === each - 1) runs.at(-1)[1] = each;
      else runs.push([each, each]);
    }
    return runs.map(([first, last]) => (first === last ? `${first}` : `${first} to ${last}`)).join(", ");
  }

  // For each kind of answer: how what is given differs, in words; nothing if it is right. Throws what is no answer.
  const KINDS = {
    number({ right: exact, answer, words, among, runs, possible }, given) {
      const named = /^\s*([a-z]+)\s*(\d+)\s*$/i.exec(given);
      const number = evaluate(named && words.includes(named[1].toLowerCase()) ? named[2] : given);
      const right = parsed(exact);
      const within = ([start, stop, step]) => number >= start && number < stop && (Number(number) - start) % step === 0;
      if (possible && !among.some((each) => each == number) && !runs.some(within)) throw new Error(`${given} is not among ${possible}`);
      if (number == right || (Number.isNaN(number) && Number.isNaN(right))) return "";
      if (bare(written(number)) === bare(answer)) return "";
      if (!finite(number) || !finite(right)) return given;
      const exactly = typeof number === typeof right;
      const gap = written(absolute(exactly ? number - right : Number(number) - Number(right)));
      return `${given}, which is ${gap} too ${number > right ? "large" : "small"}`;
    },

    choice: ({ right }, given) => (given === right ? "" : `“${given}”`),

    bits({ right: exact, width, meanings }, given) {
      const text = given.replace(/[_ ]/g, "").toLowerCase();
      const digits = text.replace(/^[+-]?(0[bx])?/, "");
      const binary = text.startsWith("0b") || (text.length === width && width > 2 && /^[01]+$/.test(text));
      if (!(binary ? /^[01]+$/ : /^[0-9a-f]+$/).test(digits)) throw new Error(`${shown(given)} is not a pattern, such as 0x3d or 0b00111101`);
      const pattern = BigInt(`0${binary ? "b" : "x"}${digits}`), right = BigInt(exact);
      if (pattern >> BigInt(width) || (pattern && text.startsWith("-"))) throw new Error(`${shown(given)} does not fit into ${counted(width, "bit")}`);
      const wrong = [...Array(width).keys()].filter((bit) => ((pattern ^ right) >> BigInt(bit)) & 1n);
      if (!wrong.length) return "";
      const hex = meanings[Number(pattern)] ?? `0x${pattern.toString(16).padStart(Math.ceil(width / 4), "0")}`;
      return `${hex}: bit${wrong.length > 1 ? "s" : ""} ${ranges(wrong)} differ${wrong.length === 1 ? "s" : ""}`;
    },

    formula({ cases, right }, given) {
      const variables = (each) => Object.fromEntries(Object.entries(each).map(([name, at]) => [name, BigInt(at)]));
      const got = cases.map((each) => evaluate(given, variables(each)));
      const wrong = [...cases.keys()].filter((number) => got[number] != parsed(right[number]));
      if (!wrong.length) return "";
      const [first] = wrong;
      const where = Object.entries(cases[first]).map(([name, at]) => `${name} = ${at}`).join(", ");
      const gives = `for ${where} it gives ${written(got[first])}, not ${written(parsed(right[first]))}`;
      return `${given}: ${gives}; ${wrong.length} of ${counted(cases.length, "value")} differ`;
    },
  };

  /** The verdict on the answer for each part: what is told, and whether it is right. */
  function judge(parts, texts) {
    return parts.map((part, number) => {
      const front = part.name ? `${part.name}: ` : "";
      if (!texts[number].trim()) throw new Error(`${front}predict first: type or choose an answer`);
      const wrong = KINDS[part.kind](part, texts[number]);
      return { told: `${front}${wrong ? `The answer is ${part.answer}. You said ${wrong}.` : `Right, ${part.answer}.`}`, right: !wrong };
    });
  }

  window.tcemu.judge = judge;
}
