// The picture of a prediction: title, five numbers, the parts of a step and its interval.
export default function ({parentElement, data}) {
  const canvas = parentElement.querySelector("canvas"), link = parentElement.querySelector("a");
  const pen = canvas.getContext("2d"), colours = data.colours;
  const left = 60, wide = 1080;
  const box = (x, y, width, height, colour) => {
    pen.fillStyle = colour;
    pen.fillRect(x, y, width, height);
  };
  const write = (text, x, y, size, colour, most = wide) => {
    pen.fillStyle = colour;
    pen.font = `${size}px ${data.font}`;
    pen.fillText(text, x, y, most);
  };
  box(0, 0, canvas.width, canvas.height, colours.background);
  write(data.title, left, 90, 46, colours.text);
  data.numbers.forEach(([name, text], at) => {
    const x = left + at * wide / data.numbers.length, most = wide / data.numbers.length - 20;
    write(name, x, 160, 24, colours.muted, most);
    write(text, x, 205, 38, colours.text, most);
  });
  if (data.band) {
    const [low, point, high] = data.band.map((seconds) => wide * seconds / data.band[2]);
    write(data.within, left, 285, 24, colours.muted);
    box(left, 305, wide, 16, colours.border);
    box(left + low, 305, high - low, 16, colours.blue);
    box(left + point - 4, 297, 8, 32, colours.text);
  }
  write("Where the time of a step goes", left, 400, 24, colours.muted);
  const step = data.parts.reduce((sum, [, seconds]) => sum + seconds, 0);
  let x = left;
  data.parts.forEach(([name, seconds, colour], at) => {
    box(x, 420, wide * seconds / step, 60, colour);
    x += wide * seconds / step;
    const column = left + at * wide / data.parts.length;
    box(column, 502, 20, 20, colour);
    write(`${name.split(" (")[0]} ${(100 * seconds / step).toFixed(0)} %`, column + 28, 521, 24, colours.text,
      wide / data.parts.length - 40);
  });
  write("dpsim", left, 595, 24, colours.muted);
  canvas.setAttribute("aria-label", `${data.title}: ${data.numbers.map((one) => one.join(" ")).join(", ")}`);
  link.href = canvas.toDataURL("image/png");
  link.download = data.file;
}
